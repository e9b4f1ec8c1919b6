// lockstock-bench-peer: StockService's Deduct as a team would write it with gRPC C++ instead of using lockstockd: an
// asynchronous service with a completion queue, which calls the same library function through one pipelined hiredis
// connection; and its asynchronous client, which can call lockstockd, too. lockstock-bench starts both.
//
//   lockstock-bench-peer serve ADDRESS REDIS-SOCKET              prints "ready", then serves until it is ended
//   lockstock-bench-peer call ADDRESS IN-FLIGHT TAG THINGS FD    calls until it is ended, and counts what was
//                                                                answered in the first eight bytes of FD
#include <grpcpp/grpcpp.h>
#include <hiredis.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "command.h"
#include "lockstock/v1/stock.grpc.pb.h"

using lockstock::v1::DeductRequest;
using lockstock::v1::DeductResponse;
using lockstock::v1::StockService;

namespace
{

constexpr int kReceivers = 1024;

[[noreturn]] void Die(const char *what)
{
    fprintf(stderr, "lockstock-bench-peer: %s\n", what);
    exit(1);
}

// ---- the service ---------------------------------------------------------------------------------------

struct Call {
    grpc::ServerContext context;
    DeductRequest request;
    DeductResponse response;
    grpc::ServerAsyncResponseWriter<DeductResponse> writer{&context};
    bool finished = false;
};

// One connection and its thread. Commands that wait are sent together; replies come in the order of the commands.
class Pipeline
{
  public:
    explicit Pipeline(const char *socket)
        : redis_(redisConnectUnix(socket)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        if (!redis_ || redis_->err)
            Die("cannot connect to Redis");
        thread_ = std::thread([this] { Run(); });
        thread_.detach();
    }

    void Submit(Call *call)
    {
        bool first;
        {
            std::lock_guard<std::mutex> guard(lock_);
            first = come_.empty();
            come_.push_back(call);
        }
        if (first) {
            uint64_t one = 1;
            if (write(wake_, &one, sizeof one) < 0)
                Die("eventfd");
        }
    }

  private:
    void Run()
    {
        for (;;) {
            pollfd events[] = {{redis_->fd, POLLIN, 0}, {wake_, POLLIN, 0}};
            poll(events, 2, -1);
            if (events[1].revents)
                Send();
            if (events[0].revents)
                Receive();
        }
    }

    void Send()
    {
        uint64_t times;
        if (read(wake_, &times, sizeof times) < 0)
            return;
        {
            std::lock_guard<std::mutex> guard(lock_);
            taken_.swap(come_);
        }
        for (Call *call : taken_) {
            const auto &line = call->request.lines(0);
            command_fcall(&command_, "stock_deduct", line.sku().c_str());
            command_deduct(&command_, line.sku().c_str(), call->request.order_id().c_str());
            redisAppendCommandArgv(redis_, command_.argc, command_.argv, nullptr);
            under_way_.push_back(call);
        }
        taken_.clear();
        for (int done = 0; !done;)
            if (redisBufferWrite(redis_, &done) != REDIS_OK)
                Die(redis_->errstr);
    }

    // The reply is what is left, or {'SOLD_OUT', ...}, {'ERR', ...}.
    void Receive()
    {
        void *found = nullptr;
        if (redisBufferRead(redis_) != REDIS_OK)
            Die(redis_->errstr);
        while (redisGetReplyFromReader(redis_, &found) == REDIS_OK && found) {
            const auto *word = static_cast<redisReply *>(found);
            Call *call = under_way_.front();
            under_way_.pop_front();
            while (word->type == REDIS_REPLY_ARRAY && word->elements > 0)
                word = word->element[0];
            const bool deducted = word->type == REDIS_REPLY_INTEGER;
            if (!deducted && (word->type != REDIS_REPLY_STRING || strcmp(word->str, "SOLD_OUT") != 0))
                Die(word->str ? word->str : "not an answer of the function");
            call->response.set_outcome(deducted ? lockstock::v1::DEDUCT_OUTCOME_DEDUCTED
                                                : lockstock::v1::DEDUCT_OUTCOME_SOLD_OUT);
            call->response.add_lines()->set_sku(call->request.lines(0).sku());
            call->finished = true;
            call->writer.Finish(call->response, grpc::Status::OK, call);
            freeReplyObject(found);
        }
    }

    redisContext *redis_;
    int wake_;
    std::thread thread_;
    std::mutex lock_;
    std::vector<Call *> come_, taken_;
    std::deque<Call *> under_way_;
    command command_;
};

int Serve(const char *address, const char *socket)
{
    StockService::AsyncService service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    auto queue = builder.AddCompletionQueue();
    auto server = builder.BuildAndStart();
    if (!server)
        Die("cannot listen");
    Pipeline pipeline(socket);
    auto receive = [&] {
        auto *call = new Call;
        service.RequestDeduct(&call->context, &call->request, &call->writer, queue.get(), queue.get(), call);
    };
    for (int i = 0; i < kReceivers; i++)
        receive();
    puts("ready");
    fflush(stdout);
    void *tag;
    for (bool ok; queue->Next(&tag, &ok);) {
        auto *call = static_cast<Call *>(tag);
        if (!ok || call->finished) {
            delete call;
            continue;
        }
        receive();
        if (call->request.lines_size() != 1)
            Die("a Deduct must have one line");
        pipeline.Submit(call);
    }
    return 0;
}

// ---- the client ----------------------------------------------------------------------------------------

struct Asked {
    std::unique_ptr<grpc::ClientContext> context;
    DeductRequest request;
    DeductResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<DeductResponse>> reader;
};

int Drive(const char *address, int in_flight, const char *tag, int things, int fd)
{
    auto *count = static_cast<std::atomic<uint64_t> *>(
        mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (count == MAP_FAILED)
        Die("cannot count");
    auto stub = StockService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::CompletionQueue queue;
    std::vector<Asked> asked(static_cast<size_t>(in_flight));
    uint64_t serial = static_cast<uint64_t>(getpid()) << 32; // an order id is never used twice
    auto ask = [&](Asked *a) {
        char id[40];
        snprintf(id, sizeof id, "%s-%019llx", tag, static_cast<unsigned long long>(serial++));
        a->context = std::make_unique<grpc::ClientContext>();
        a->context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
        a->request.set_order_id(id);
        a->request.set_fresh(true);
        a->reader = stub->AsyncDeduct(a->context.get(), a->request, &queue);
        a->reader->Finish(&a->response, &a->status, a);
    };
    for (int i = 0; i < in_flight; i++) {
        auto *line = asked[static_cast<size_t>(i)].request.add_lines();
        line->set_sku(std::string(tag) + "-" + std::to_string(i % things));
        line->set_quantity(1);
        ask(&asked[static_cast<size_t>(i)]);
    }
    void *found;
    for (bool ok; queue.Next(&found, &ok);) {
        auto *a = static_cast<Asked *>(found);
        if (!a->status.ok())
            Die(a->status.error_message().c_str());
        count->fetch_add(1, std::memory_order_relaxed);
        ask(a);
    }
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        return Serve(argv[2], argv[3]);
    if (argc == 7 && strcmp(argv[1], "call") == 0)
        return Drive(argv[2], atoi(argv[3]), argv[4], atoi(argv[5]), atoi(argv[6]));
    fprintf(stderr, "usage: lockstock-bench-peer serve ADDRESS REDIS-SOCKET | call ADDRESS IN-FLIGHT TAG THINGS FD\n");
    return 2;
}
