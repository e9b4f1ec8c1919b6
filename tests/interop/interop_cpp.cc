/* grpc.testing.TestService in gRPC C++, its unary methods: writes its port on a line. A call with the metadata x-hold is
 * not answered while its client waits. */
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "grpc/testing/unary.grpc.pb.h"

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;
using grpc::testing::Empty;
using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;

namespace
{

std::string entry(const ServerContext *context, const char *key)
{
    const auto found = context->client_metadata().find(key);
    return found == context->client_metadata().end() ? "" : std::string(found->second.data(), found->second.size());
}

class Service final : public grpc::testing::TestService::Service
{
    Status EmptyCall(ServerContext *context, const Empty *, Empty *) override
    {
        while (!entry(context, "x-hold").empty() && !context->IsCancelled())
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return Status::OK;
    }

    Status UnaryCall(ServerContext *context, const SimpleRequest *request, SimpleResponse *response) override
    {
        if (!entry(context, "x-expect-both").empty() &&
            (entry(context, "x-grpc-test-echo-initial") != "test_initial_metadata_value" ||
             entry(context, "x-grpc-test-echo-trailing-bin") != "\xAB\xAB\xAB"))
            return Status(StatusCode::INVALID_ARGUMENT, "metadata");
        for (const char *key : {"x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"})
            if (const std::string value = entry(context, key); !value.empty())
                key == std::string("x-grpc-test-echo-initial") ? context->AddInitialMetadata(key, value)
                                                               : context->AddTrailingMetadata(key, value);
        if (request->response_status().code() != 0)
            return Status(static_cast<StatusCode>(request->response_status().code()),
                          request->response_status().message());
        response->mutable_payload()->set_body(std::string(static_cast<size_t>(request->response_size()), '\0'));
        return Status::OK;
    }

    Status CacheableUnaryCall(ServerContext *context, const SimpleRequest *request, SimpleResponse *response) override
    {
        return UnaryCall(context, request, response);
    }
};

} // namespace

int main()
{
    int port = 0;
    Service service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    const auto server = builder.BuildAndStart();
    std::cout << port << std::endl;
    server->Wait();
}
