module github.com/lockstock/lockstock/clients/go

go 1.19

require (
	google.golang.org/grpc v1.33.2
	google.golang.org/protobuf v1.28.1
)
