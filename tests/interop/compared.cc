// The gRPC C++ side of compare_hosts.py: a server and a client. compared.c is the same in C.
//   compared server [DIR]      writes its port; reads "go", "reload" and "drain MS"; ends with its input. DIR: with TLS by
//                              its cert.pem, key.pem and ca.pem, and without on its socket
//   compared client ADDRESS CASE
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>

#include "compared/v1/compared.grpc.pb.h"

using compared::v1::AskRequest;
using compared::v1::AskResponse;
using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::system_clock;

namespace
{

std::mutex lock;
std::condition_variable changed;
bool open_gate;

void say(const std::string &line)
{
    std::lock_guard<std::mutex> held(lock);
    std::cout << line << std::endl;
}

std::string values(const ServerContext *context, const char *key)
{
    std::string all;
    const auto range = context->client_metadata().equal_range(key);
    for (auto entry = range.first; entry != range.second; ++entry)
        all += (all.empty() ? "" : ",") + std::string(entry->second.data(), entry->second.size());
    return all;
}

const char *left(system_clock::duration time)
{
    return time <= std::chrono::seconds(25) ? "20 s" : time <= std::chrono::seconds(30) ? "30 s" : "more";
}

class Service final : public compared::v1::Compared::Service
{
    Status Ask(ServerContext *context, const AskRequest *request, AskResponse *response) override
    {
        const std::string &what = request->what();
        if (what == "deadline")
            response->set_text(left(context->deadline() - system_clock::now()));
        if (what == "metadata")
            response->set_text(values(context, "x-text") + "; " + values(context, "x-raw-bin"));
        if (what == "trailers") {
            context->AddInitialMetadata("x-first", "1");
            context->AddTrailingMetadata("x-last", "2");
        }
        if (what == "peer")
            response->set_text(context->peer().substr(0, context->peer().rfind(':')));
        if (what == "names")
            for (const char *kind : {"x509_common_name", "x509_subject_alternative_name"})
                for (const auto &name : context->auth_context()->FindPropertyValues(kind))
                    response->set_text(response->text() + (response->text().empty() ? "" : ", ") +
                                       std::string(name.data(), name.size()));
        if (what == "fail")
            return Status(static_cast<StatusCode>(request->code()), request->text());
        if (what == "hold") {
            say("began");
            while (!context->IsCancelled())
                std::this_thread::sleep_for(milliseconds(5));
            say("cancelled");
        }
        if (what == "work") {
            say("began");
            std::unique_lock<std::mutex> held(lock);
            changed.wait(held, [] { return open_gate; });
        }
        return Status::OK;
    }
};

std::shared_ptr<grpc::ServerCredentials> credentials(const std::string &dir)
{
    namespace tls = grpc::experimental;
    if (dir.empty())
        return grpc::InsecureServerCredentials();
    tls::TlsServerCredentialsOptions options(
        std::make_shared<tls::FileWatcherCertificateProvider>(dir + "/key.pem", dir + "/cert.pem", dir + "/ca.pem", 1));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
    return tls::TlsServerCredentials(options);
}

int serve(const std::string &dir)
{
    int port = 0;
    Service service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials(dir), &port);
    if (!dir.empty())
        builder.AddListeningPort("unix:" + dir + "/socket", grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    std::thread drain;
    say(std::to_string(port));
    for (std::string line; std::getline(std::cin, line);) {
        if (line.rfind("drain ", 0) == 0)
            drain = std::thread([&server, line] {
                server->Shutdown(system_clock::now() + milliseconds(std::stoi(line.substr(6))));
                say("closed");
            });
        std::lock_guard<std::mutex> held(lock);
        open_gate |= line == "go";
        changed.notify_all();
    }
    if (drain.joinable())
        drain.join();
    server->Shutdown();
    return 0;
}

// The case is "CALL[ cancel]", CALL the `what` of a request; its deadline is 1 s.
int call(const std::string &address, const std::string &what, bool cancels)
{
    const auto stub = compared::v1::Compared::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    AskRequest request;
    AskResponse response;
    request.set_what(what);
    context.set_deadline(system_clock::now() + milliseconds(1000));
    std::thread canceller;
    if (cancels)
        canceller = std::thread([&context] {
            std::string line;
            std::getline(std::cin, line);
            context.TryCancel();
        });
    const Status status = what == "write" || what == "hold" ? stub->Write(&context, request, &response)
                                                            : stub->Ask(&context, request, &response);
    std::cout << status.error_code() << " " << status.error_message().size();
    for (const auto &entry : context.GetServerTrailingMetadata())
        if (entry.first == "x-last")
            std::cout << " x-last=" << std::string(entry.second.data(), entry.second.size());
    std::cout << std::endl;
    if (cancels)
        canceller.join();
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 4)
        return serve(argc < 3 ? "" : argv[2]);
    return call(argv[2], argv[3], argc > 4);
}
