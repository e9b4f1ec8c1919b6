// Package lockstock runs code under a lock of lockstockd. This file may also be copied into a program.
package lockstock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	v1 "github.com/lockstock/lockstock/clients/go/lockstock/v1"
)

// Reconnect is an option for grpc.Dial: a restarted server is reached again within a lease.
var Reconnect = grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
	Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 250 * time.Millisecond}})

// Lock waits for the lock, runs body and releases. It renews the lease meanwhile, and cancels body's context when the
// lock is lost. It returns an error if the lock was not acquired, or was lost. Pass the fence to the resource that the
// lock protects.
func Lock(ctx context.Context, locks v1.LockServiceClient, name string, length, wait time.Duration,
	body func(ctx context.Context, fence uint64) error) error {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	lease := &v1.Lease{Group: name, Token: hex.EncodeToString(random), LeaseMs: length.Milliseconds()}
	defer func() { // also releases after an Acquire whose answer was lost
		ctx, cancel := context.WithTimeout(context.Background(), length)
		defer cancel()
		locks.Release(ctx, &v1.ReleaseRequest{Group: name, Token: lease.Token}, grpc.WaitForReady(true))
	}()
	held, err := locks.Acquire(ctx, &v1.AcquireRequest{Targets: []*v1.Target{{Name: name}}, Token: lease.Token,
		LeaseMs: lease.LeaseMs, WaitMs: wait.Milliseconds()}, grpc.WaitForReady(true))
	if err != nil || held.Outcome != v1.AcquireOutcome_ACQUIRE_OUTCOME_ACQUIRED {
		return fmt.Errorf("%s: not acquired: %v %v", name, held.GetOutcome(), err)
	}
	ctx, cancel := context.WithCancel(ctx)
	renewed, lost := make(chan bool, 1), make(chan error, 1)
	go func() {
		defer cancel()
		lost <- keep(ctx, locks, lease, renewed)
	}()
	select {
	case <-renewed: // the lease counts from here, not from before the wait
		err = body(ctx, held.Fences[0].Fence)
	case <-ctx.Done():
		err = ctx.Err()
	}
	cancel()
	if why := <-lost; why != nil {
		return why
	}
	return err
}

// keep renews the lease until ctx ends. It returns an error a tenth before the lease can have ended without a renewal.
func keep(ctx context.Context, locks v1.LockServiceClient, lease *v1.Lease, renewed chan<- bool) error {
	length, pause := time.Duration(lease.LeaseMs)*time.Millisecond, time.Duration(0)
	for until := time.Now().Add(length); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		sent := time.Now()
		try, end := context.WithDeadline(ctx, until)
		answer, err := locks.Renew(try, &v1.RenewRequest{Leases: []*v1.Lease{lease}}, grpc.WaitForReady(true))
		end()
		pause = 50 * time.Millisecond
		if err == nil && answer.Results[0].Outcome == v1.RenewOutcome_RENEW_OUTCOME_RENEWED {
			until, pause = sent.Add(length*9/10), length/3
			select {
			case renewed <- true: // the first one
			default:
			}
		} else if ctx.Err() == nil && (err == nil || !time.Now().Before(until)) {
			return fmt.Errorf("%s: the lock is lost: %v", lease.Group, err)
		}
	}
}
