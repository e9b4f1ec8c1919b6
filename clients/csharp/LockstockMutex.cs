using System.Security.Cryptography;
using Grpc.Core;
using Lockstock.V1;

namespace Lockstock;

/// <summary>Runs code under a lock, and renews the lock meanwhile.</summary>
public static class LockstockMutex
{
    /// <summary>Waits for the lock, runs the body and releases. The body's token is cancelled when the lock is lost; then, and when the
    /// lock was not acquired, it throws. The fence is for what the lock protects.</summary>
    public static async Task Run(LockService.LockServiceClient locks, string name, TimeSpan length, TimeSpan wait,
        Func<ulong, CancellationToken, Task> body, CancellationToken stop = default)
    {
        var lease = new Lease { Group = name, Token = Convert.ToHexString(RandomNumberGenerator.GetBytes(16)), LeaseMs = (long)length.TotalMilliseconds };
        try
        {
            var request = new AcquireRequest { Token = lease.Token, LeaseMs = lease.LeaseMs, WaitMs = (long)wait.TotalMilliseconds };
            request.Targets.Add(new Target { Name = name });
            var held = await locks.AcquireAsync(request, deadline: DateTime.UtcNow + wait + length, cancellationToken: stop);
            if (held.Outcome != AcquireOutcome.Acquired)
                throw new InvalidOperationException($"{name}: not acquired: {held.Outcome}");
            var until = await Renew(locks, lease, Environment.TickCount64 + lease.LeaseMs, stop); // the wait does not count
            using var lost = CancellationTokenSource.CreateLinkedTokenSource(stop);
            var keeper = Keep(locks, lease, until, lost);
            try { await body(held.Fences[0].Fence_, lost.Token); }
            finally { lost.Cancel(); }
            await keeper;
        }
        finally // an answer of Acquire may have been lost
        {
            try { await locks.ReleaseAsync(new ReleaseRequest { Group = name, Token = lease.Token }, deadline: DateTime.UtcNow + length); }
            catch (RpcException) { /* the lease ends by itself */ }
        }
    }

    private static async Task Keep(LockService.LockServiceClient locks, Lease lease, long until, CancellationTokenSource body)
    {
        try
        {
            for (; ; await Task.Delay((int)lease.LeaseMs / 3, body.Token))
                until = await Renew(locks, lease, until, body.Token);
        }
        catch (OperationCanceledException) { /* the body has ended */ }
        finally { body.Cancel(); }
    }

    private static async Task<long> Renew(LockService.LockServiceClient locks, Lease lease, long until, CancellationToken stop)
    {
        var request = new RenewRequest();
        request.Leases.Add(lease);
        for (string why = ""; ; await Task.Delay(50, stop))
        {
            var sent = Environment.TickCount64;
            if (sent >= until) throw new InvalidOperationException($"{lease.Group}: the lock is lost {why}");
            try
            {
                var told = await locks.RenewAsync(request, deadline: DateTime.UtcNow.AddMilliseconds(until - sent), cancellationToken: stop);
                if (told.Results[0].Outcome == RenewOutcome.Renewed) return sent + lease.LeaseMs * 9 / 10; // before the lease can have ended
                until = sent;
            }
            catch (RpcException error) { stop.ThrowIfCancellationRequested(); why = error.Status.Detail; }
        }
    }
}
