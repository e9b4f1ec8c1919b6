// lockstock over gRPC, with the stubs of protoc-gen-go and protoc-gen-go-grpc for proto/:
//
//	client HOST:PORT
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	lks "github.com/lockstock/lockstock/clients/go/lockstock/v1"
)

// must ends the program after an error.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// newToken returns a random token. A repeated call has the same token.
func newToken() string {
	bytes := make([]byte, 16)
	_, err := rand.Read(bytes)
	must(err)
	return hex.EncodeToString(bytes)
}

func lock(ctx context.Context, conn *grpc.ClientConn) {
	locks := lks.NewLockServiceClient(conn)
	targets := []*lks.Target{{Name: "printer"}}
	held, err := locks.Acquire(ctx, &lks.AcquireRequest{Targets: targets, Token: newToken(), Owner: "me", LeaseMs: 10000})
	must(err)
	if held.Outcome != lks.AcquireOutcome_ACQUIRE_OUTCOME_ACQUIRED {
		fmt.Println("lock: taken")
		return
	}
	fmt.Println("lock: mine")
	other, err := locks.Acquire(ctx, &lks.AcquireRequest{Targets: targets, Token: newToken(), LeaseMs: 10000})
	must(err)
	fmt.Println("lock: taken by", other.Holder.Owner)
	lease := &lks.Lease{Group: held.Group, Token: held.Token, LeaseMs: 20000}
	renewed, err := locks.Renew(ctx, &lks.RenewRequest{Leases: []*lks.Lease{lease}})
	must(err)
	if renewed.Results[0].Outcome == lks.RenewOutcome_RENEW_OUTCOME_RENEWED {
		fmt.Println("lock: renewed")
	}
	released, err := locks.Release(ctx, &lks.ReleaseRequest{Group: held.Group, Token: held.Token})
	must(err)
	if released.Outcome == lks.ReleaseOutcome_RELEASE_OUTCOME_RELEASED {
		fmt.Println("lock: released")
	}
}

// buy sends an order twice: its id makes that safe, and the second answer is the first one.
func buy(ctx context.Context, conn *grpc.ClientConn) {
	stock := lks.NewStockServiceClient(conn)
	_, err := stock.PutItem(ctx, &lks.PutItemRequest{Sku: "phone", OnHand: 10})
	must(err)
	order := &lks.DeductRequest{OrderId: "order-1", Lines: []*lks.Line{{Sku: "phone", Quantity: 1}}}
	for i := 0; i < 2; i++ {
		sold, err := stock.Deduct(ctx, order)
		must(err)
		before := ""
		if sold.Replayed {
			before = " before"
		}
		fmt.Printf("order-1: sold%s, %d left\n", before, sold.Lines[0].Available)
	}
}

func limit(ctx context.Context, conn *grpc.ClientConn) {
	limits := lks.NewRateLimitServiceClient(conn)
	twoAnHour := &lks.Limit{Algorithm: lks.Algorithm_ALGORITHM_FIXED_WINDOW, Limit: 2, PeriodMs: 3600000}
	for i := 0; i < 3; i++ {
		rule := &lks.Rule{Spec: &lks.Rule_Limit{Limit: twoAnHour}, Key: "alice"}
		answer, err := limits.Check(ctx, &lks.CheckRequest{Rules: []*lks.Rule{rule}})
		must(err)
		if answer.Outcome == lks.CheckOutcome_CHECK_OUTCOME_ALLOWED {
			fmt.Printf("limit: go on, %d left\n", answer.Rules[0].Remaining)
		} else {
			fmt.Println("limit: too often")
		}
	}
}

// fail prints an error. Applied NO: nothing was changed; MAYBE, or no such metadata: send the same call again, with the
// same id.
func fail(ctx context.Context, conn *grpc.ClientConn) {
	var trailer metadata.MD
	order := &lks.DeductRequest{OrderId: "order-2", Lines: []*lks.Line{{Sku: "phone"}}}
	_, err := lks.NewStockServiceClient(conn).Deduct(ctx, order, grpc.Trailer(&trailer))
	failure := status.Convert(err)
	applied := "MAYBE"
	if said := trailer.Get("lockstock-applied"); len(said) > 0 {
		applied = said[0]
	}
	var fields []string
	for _, detail := range failure.Details() {
		switch detail := detail.(type) {
		case *errdetails.BadRequest:
			for _, violation := range detail.FieldViolations {
				fields = append(fields, violation.Field)
			}
		case *errdetails.RetryInfo:
			fmt.Println("try again in", detail.RetryDelay.AsDuration())
		}
	}
	fmt.Printf("error: %s, applied %s, %s\n", code.Code(failure.Code()), applied, strings.Join(fields, ", "))
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: client HOST:PORT")
	}
	conn, err := grpc.Dial(os.Args[1], grpc.WithInsecure())
	must(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, step := range []func(context.Context, *grpc.ClientConn){lock, buy, limit, fail} {
		step(ctx, conn)
	}
}
