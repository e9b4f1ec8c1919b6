module example

go 1.19

require (
	github.com/lockstock/lockstock/clients/go v0.0.0
	google.golang.org/genproto v0.0.0-20200413115906-b5235f65be36
	google.golang.org/grpc v1.33.2
)

replace github.com/lockstock/lockstock/clients/go => ../../clients/go
