package lockstock;

import io.grpc.Channel;
import io.grpc.StatusRuntimeException;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import lockstock.v1.*;

/** A lock that renews itself, for try-with-resources. The thread that holds it is interrupted when the lock is lost, and close throws. */
public final class Mutex implements AutoCloseable {
  public final long fence; // for the resource that the lock protects
  private final LockServiceGrpc.LockServiceBlockingStub locks;
  private final Lease lease;
  private final Thread holder = Thread.currentThread(), keeper = new Thread(this::keep, "lockstock");
  private volatile long until; // of System.nanoTime: from then on the lock counts as lost
  private volatile boolean lost, closed;

  public Mutex(Channel channel, String name, long leaseMs, long waitMs) {
    byte[] random = new byte[18];
    new SecureRandom().nextBytes(random);
    String token = Base64.getUrlEncoder().encodeToString(random);
    locks = LockServiceGrpc.newBlockingStub(channel).withWaitForReady();
    lease = Lease.newBuilder().setGroup(name).setToken(token).setLeaseMs(leaseMs).build();
    try {
      AcquireResponse held = locks.withDeadlineAfter(waitMs + leaseMs, TimeUnit.MILLISECONDS).acquire(AcquireRequest.newBuilder()
          .addTargets(Target.newBuilder().setName(name)).setToken(token).setLeaseMs(leaseMs).setWaitMs(waitMs).build());
      if (held.getOutcome() != AcquireOutcome.ACQUIRE_OUTCOME_ACQUIRED)
        throw new IllegalStateException(name + ": not acquired: " + held.getOutcome());
      fence = held.getFences(0).getFence();
      until = System.nanoTime() + leaseMs * 1_000_000;
      if (!renew()) throw new IllegalStateException(name + ": lost before it was acquired"); // the wait does not count
    } catch (RuntimeException error) {
      release(); // an answer may have been lost
      throw error;
    }
    keeper.setDaemon(true);
    keeper.start();
  }

  public boolean isLost() {
    return lost || System.nanoTime() - until >= 0;
  }

  private boolean renew() {
    for (long sent = System.nanoTime(); sent - until < 0 && !closed; sent = System.nanoTime()) {
      try {
        RenewResponse told = locks.withDeadlineAfter(until - sent, TimeUnit.NANOSECONDS).renew(RenewRequest.newBuilder().addLeases(lease).build());
        until = sent + lease.getLeaseMs() * 900_000; // a tenth before the lease can have ended
        return told.getResults(0).getOutcome() == RenewOutcome.RENEW_OUTCOME_RENEWED;
      } catch (StatusRuntimeException error) {
        if (!pause(50)) return false;
      }
    }
    return false;
  }

  private boolean pause(long ms) {
    try {
      Thread.sleep(ms);
      return true;
    } catch (InterruptedException closing) {
      return false;
    }
  }

  private void keep() {
    while (pause(lease.getLeaseMs() / 3)) {
      if (renew()) continue;
      if (closed) return;
      lost = true;
      holder.interrupt();
      return;
    }
  }

  private void release() {
    try {
      locks.withDeadlineAfter(lease.getLeaseMs(), TimeUnit.MILLISECONDS)
          .release(ReleaseRequest.newBuilder().setGroup(lease.getGroup()).setToken(lease.getToken()).build());
    } catch (StatusRuntimeException unanswered) {
      // The lease ends by itself.
    }
  }

  @Override
  public void close() {
    boolean wasLost = isLost();
    if (lost) Thread.interrupted(); // the interrupt was for the body; the Release must be sent
    closed = true;
    keeper.interrupt();
    release();
    if (wasLost) throw new IllegalStateException(lease.getGroup() + ": the lock was lost");
  }
}
