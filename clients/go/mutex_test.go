package lockstock

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"

	v1 "github.com/lockstock/lockstock/clients/go/lockstock/v1"
)

// LOCKSTOCK_GRPC is host:port of a lockstockd.
func connect(t *testing.T) v1.LockServiceClient {
	conn, err := grpc.Dial(os.Getenv("LOCKSTOCK_GRPC"), grpc.WithInsecure(), Reconnect)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return v1.NewLockServiceClient(conn)
}

func TestALockIsHeldForLongerThanItsLeaseAndPassedOn(t *testing.T) {
	ctx, locks := context.Background(), connect(t)
	var first, second uint64
	waited := make(chan error, 1)
	err := Lock(ctx, locks, "go-turn", 2*time.Second, 0, func(ctx context.Context, fence uint64) error {
		first = fence
		go func() {
			waited <- Lock(context.Background(), locks, "go-turn", 2*time.Second, time.Minute, func(_ context.Context, fence uint64) error {
				second = fence
				return nil
			})
		}()
		busy := Lock(ctx, locks, "go-turn", 2*time.Second, 5*time.Second, func(context.Context, uint64) error { return nil })
		if busy == nil {
			t.Error("two holders")
		}
		return ctx.Err()
	})
	if err != nil || <-waited != nil || second <= first {
		t.Fatal(err, first, second)
	}
}

func TestALockThatIsLostCancelsItsContext(t *testing.T) {
	locks := connect(t)
	err := Lock(context.Background(), locks, "go-lost", time.Second, 0, func(ctx context.Context, _ uint64) error {
		if _, err := locks.ForceRelease(context.Background(), &v1.ForceReleaseRequest{Name: "go-lost"}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	if err == nil {
		t.Fatal("the loss was not told")
	}
}
