"""admission_grpc.py HOST:PORT DIRECTORY SECRET: who may do what over gRPC and TLS, asked by
grpcio, with the files and principals of admission.lua. Exits with 0 when all checks
pass."""
import sys

try:
    import grpc
except ImportError:
    print("no grpcio here")
    sys.exit(0)

address, directory, secret = sys.argv[1:]
CHECK = "/grpc.health.v1.Health/Check"
GET_ITEM = "/lockstock.v1.StockService/GetItem"
INSPECT = "/lockstock.v1.LockService/Inspect"
REFLECT = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
SKU = b"\x12\x07missing"  # field 2
LIST_SERVICES = b"\x3a\x01*"  # field 7


def read(name):
    with open(f"{directory}/{name}", "rb") as file:
        return file.read()


def channel(certificate=None):
    pair = (read(certificate + ".key"), read(certificate)) if certificate else (None, None)
    credentials = grpc.ssl_channel_credentials(read("ca"), *pair)
    return grpc.secure_channel(address, credentials, [("grpc.ssl_target_name_override", "localhost")])


def outcome(certificate, method, payload, token=None, namespace=None):
    """Code, text and lockstock-applied of one call, and the details of its error."""
    metadata = [("authorization", f"Bearer {token}{secret}")] if token else []
    metadata += [("lockstock-namespace", namespace)] if namespace else []
    with channel(certificate) as over:
        try:
            if method == REFLECT:
                call = over.stream_stream(method)(iter([payload]), metadata=metadata, timeout=30)
                next(call)
            else:
                over.unary_unary(method)(payload, metadata=metadata, timeout=30)
        except grpc.RpcError as error:
            trailers = dict(error.trailing_metadata() or ())
            return error.code().name, error.details(), trailers.get("lockstock-applied", "").upper(), \
                trailers.get("grpc-status-details-bin", b"")
    return "OK", "", "", b""


REASONS = {"UNAUTHENTICATED": b"not_authenticated", "PERMISSION_DENIED": b"permission_denied"}
UNKNOWN = ("UNAUTHENTICATED", "the caller is not known")
DENIED = ("PERMISSION_DENIED", "the caller may not do this")
failed = 0
for wanted, *call in [
    ("OK", None, CHECK, b""),
    ("OK", None, CHECK, b"", "wrong"),
    (UNKNOWN, None, REFLECT, LIST_SERVICES),
    (UNKNOWN, None, REFLECT, LIST_SERVICES, "wrong"),
    (DENIED, None, REFLECT, LIST_SERVICES, "shop"),
    (DENIED, "shop", REFLECT, LIST_SERVICES),
    ("OK", None, REFLECT, LIST_SERVICES, "looks"),
    ("OK", None, REFLECT, LIST_SERVICES, "auditor"),
    ("OK", "auditor", REFLECT, LIST_SERVICES),
    (DENIED, None, GET_ITEM, SKU, "looks"),
    (UNKNOWN, None, GET_ITEM, SKU),
    (UNKNOWN, "unknown", GET_ITEM, SKU),
    (UNKNOWN, None, GET_ITEM, SKU, "shop-ended"),
    (DENIED, None, GET_ITEM, SKU, "nothing"),
    (DENIED, "shop", GET_ITEM, SKU, None, "other"),
    (DENIED, "shop", INSPECT, SKU),
    ("NOT_FOUND", "shop", GET_ITEM, SKU),
    ("NOT_FOUND", None, GET_ITEM, SKU, "shop"),
    ("NOT_FOUND", "unknown", GET_ITEM, SKU, "shop"),
    ("NOT_FOUND", None, GET_ITEM, SKU, "ops", "other"),
    ("UNAVAILABLE", "foreign", GET_ITEM, SKU, "ops"),
    ("UNAVAILABLE", "expired", GET_ITEM, SKU, "ops"),
]:
    code, text, applied, details = outcome(*call)
    right = code == wanted if isinstance(wanted, str) else (code, text) == wanted
    if right and wanted in (UNKNOWN, DENIED) and call[1] != REFLECT:
        right = applied == "NO" and REASONS[code] in details
    if not right:
        print(f"{call}: {code} {text!r} applied {applied!r}, not {wanted}")
        failed = 1
sys.exit(failed)
