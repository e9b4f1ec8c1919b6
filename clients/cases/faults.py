"""A gRPC server between client and lockstockd, which handles the next calls by a script."""
import threading
from collections import deque
from concurrent import futures

import grpc


def same(data):
    return data


class Faults(grpc.GenericRpcHandler):
    """Forwards calls to `url`. `script` has what happens to the next calls of a method instead:

    ("refuse", code, applied)   is answered with an error, and not passed on
    ("answer", code, applied)   is passed on, and answered with an error
    ("lose",)                   is passed on, and its answer is an error without a word about `applied`
    ("hang",)                   is not passed on, and not answered
    ("twice",)                  is passed on twice; the second answer counts
    """

    def __init__(self, url):
        self.channel = grpc.insecure_channel(url.replace("grpc://", ""))
        self.script, self.calls, self.lock = {}, {}, threading.Lock()
        self.server = grpc.server(futures.ThreadPoolExecutor(64))
        self.url = "grpc://127.0.0.1:%d" % self.server.add_insecure_port("127.0.0.1:0")
        self.server.add_generic_rpc_handlers((self,))
        self.server.start()

    def next(self, method, *faults):
        """Sets the faults of the next calls of a method ("Deduct")."""
        with self.lock:
            self.script[method] = deque(faults)
            self.calls[method] = []

    def service(self, details):
        def call(request, context):
            return self.call(details.method, request, context)
        return grpc.unary_unary_rpc_method_handler(call, request_deserializer=same, response_serializer=same)

    def take(self, method, request):
        with self.lock:
            self.calls.setdefault(method, []).append(request)
            script = self.script.get(method)
            return script.popleft() if script else ("pass",)

    def call(self, path, request, context):
        fault = self.take(path.rpartition("/")[2], request)
        if fault[0] == "refuse":
            self.fail(context, *fault[1:])
        if fault[0] == "hang":
            ended = threading.Event()
            if context.add_callback(ended.set):
                ended.wait()
            context.abort(grpc.StatusCode.CANCELLED, "the client has left")
        forward = self.channel.unary_unary(path, request_serializer=same, response_deserializer=same)
        try:
            for _ in range(2 if fault[0] == "twice" else 1):
                answer = forward(request, timeout=context.time_remaining())
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata() or ())
            context.abort(error.code(), error.details())
        if fault[0] == "answer":
            self.fail(context, *fault[1:])
        if fault[0] == "lose":
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was lost")
        return answer

    @staticmethod
    def fail(context, code, applied):
        context.set_trailing_metadata((("lockstock-applied", applied),))
        context.abort(getattr(grpc.StatusCode, code), "as told")

    def close(self):
        self.server.stop(None)
        self.channel.close()
