import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import lockstock.Mutex;
import lockstock.v1.*;

/** UseMutex HOST:PORT: holds a lock for longer than its lease, passes it on, and is told of its loss. */
public class UseMutex {
  public static void main(String[] args) throws Exception {
    ManagedChannel channel = NettyChannelBuilder.forTarget(args[0]).usePlaintext().build();
    long first;
    try (Mutex held = new Mutex(channel, "java", 2000, 0)) {
      first = held.fence;
      try (Mutex other = new Mutex(channel, "java", 2000, 5000)) {
        throw new AssertionError("two holders");
      } catch (IllegalStateException busy) {
        System.out.println(busy.getMessage());
      }
    }
    try (Mutex held = new Mutex(channel, "java", 2000, 0)) {
      System.out.println(held.fence > first ? "passed on" : "the fence is old");
      LockServiceGrpc.newBlockingStub(channel).forceRelease(ForceReleaseRequest.newBuilder().setName("java").build());
      try {
        Thread.sleep(100_000);
      } catch (InterruptedException lost) {
        System.out.println(held.isLost() ? "lost" : "interrupted");
      }
    } catch (IllegalStateException lost) {
      System.out.println(lost.getMessage());
    }
    channel.shutdownNow();
  }
}
