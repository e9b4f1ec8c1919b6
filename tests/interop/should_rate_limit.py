"""should_rate_limit.py HOST:PORT: the requests that Envoy's rate limit filter sends, and the fields that it reads."""
import sys

import grpc
from envoy.service.ratelimit.v3 import rls_pb2
from lockstock.v1 import ratelimit_pb2

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def main(address):
    with grpc.insecure_channel(address) as channel:
        put = channel.unary_unary("/lockstock.v1.RateLimitService/PutPolicy",
                                  request_serializer=ratelimit_pb2.PutPolicyRequest.SerializeToString,
                                  response_deserializer=ratelimit_pb2.PutPolicyResponse.FromString)
        ask = channel.unary_unary(METHOD, request_serializer=rls_pb2.RateLimitRequest.SerializeToString,
                                  response_deserializer=rls_pb2.RateLimitResponse.FromString)
        shop = (("lockstock-namespace", "shop"),)
        limit = ratelimit_pb2.Limit(algorithm="ALGORITHM_FIXED_WINDOW", limit=3, period_ms=604800000)
        put(ratelimit_pb2.PutPolicyRequest(name="web/path=login/remote_address", limit=limit), metadata=shop, timeout=5)

        request = rls_pb2.RateLimitRequest(domain="web")
        entries = request.descriptors.add().entries
        entries.add(key="path", value=b"login")
        entries.add(key="remote_address", value=b"10.0.0.1")
        request.descriptors.add().entries.add(key="path", value=b"home")
        request.descriptors[0].hits_addend.value = 2

        response = ask(request, metadata=shop, timeout=5)
        assert response.overall_code == response.OK, response
        assert [status.code for status in response.statuses] == [response.OK, response.OK], response
        first = response.statuses[0]
        assert (first.current_limit.requests_per_unit, first.current_limit.unit) == (3, 7), response  # WEEK
        assert first.limit_remaining == 1 and first.duration_until_reset.ToSeconds() > 0, response
        assert not response.statuses[1].HasField("current_limit"), response

        response = ask(request, metadata=shop, timeout=5)
        assert response.overall_code == response.OVER_LIMIT, response
        assert [status.code for status in response.statuses] == [response.OVER_LIMIT, response.OK], response

        response = ask(request, timeout=5)  # another namespace
        assert response.overall_code == response.OK, response

        # The descriptor that was over its limit.
        put(ratelimit_pb2.PutPolicyRequest(name="web/path=login/remote_address=10.0.0.1", unlimited=True), metadata=shop,
            timeout=5)
        response = ask(request, metadata=shop, timeout=5)
        assert response.overall_code == response.OK, response
        assert response.statuses[0].code == response.OK and not response.statuses[0].HasField("current_limit"), response

        try:
            ask(rls_pb2.RateLimitRequest(domain="web"), timeout=5)
            raise AssertionError("a request without descriptors was taken")
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, error


main(sys.argv[1])
