"""The servers of a client, and the metadata of its calls."""
from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence, Tuple, Union

import grpc

SCHEMES = {"grpc": False, "grpcs": True, "grpc+unix": False}
# By default the pause between two connection attempts of grpcio grows to two minutes. A lease must outlive a restart of the server.
CHANNEL_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 3000),  # despite its name, the timeout of a connection attempt
    ("grpc.keepalive_time_ms", 10000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
Token = Union[str, Callable[[], str], None]


def parse(urls: Union[str, Sequence[str]]) -> List[Tuple[str, bool]]:
    """[(address for grpcio, with TLS)] of "grpc://h1:7701,h2:7701", or of a list of such URLs."""
    texts = [urls] if isinstance(urls, str) else list(urls or [])
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"url: must be a text or a list of texts, not {urls!r}")
    parts = [part for text in texts for part in text.split(",")]
    found, scheme = [], ""
    for part in parts:
        name, separator, rest = part.strip().partition("://")
        scheme, rest = (name, rest) if separator else (scheme, name)
        if scheme not in SCHEMES or not rest:
            raise ValueError(f"url: must be grpc://HOST:PORT, grpcs://HOST:PORT or grpc+unix:///PATH, not {part!r}")
        if scheme == "grpc+unix":
            rest = "unix:" + rest
        elif not rest.rpartition(":")[2].isdigit():
            raise ValueError(f"url: {part!r} must have a port")
        found.append((rest, SCHEMES[scheme]))
    return found


def check_timeout(seconds: float) -> None:
    if not 0 < seconds < math.inf:
        raise ValueError(f"timeout: must be a number of seconds above 0, not {seconds}")


def _word(what: str, value: Optional[str]) -> str:
    """A value of the metadata. The message does not have it: it may be secret."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{what}: must be a str, not {type(value).__name__}")
    value = (value or "").strip()
    if not re.fullmatch("[ -~]*", value):
        raise ValueError(f"{what}: must be one line of ASCII")
    return value


@dataclass
class Target:
    """The arguments of lockstock.connect."""
    urls: Union[str, Sequence[str]]
    token: Token = None
    namespace: str = ""
    timeout: float = 5.0
    owner: str = ""
    ca_file: Optional[str] = None
    certificate_file: Optional[str] = None
    key_file: Optional[str] = None
    server_name: Optional[str] = None
    addresses: List[Tuple[str, bool]] = field(init=False)
    options: List[Tuple[str, object]] = field(init=False)
    pid: int = field(init=False)

    def __post_init__(self) -> None:
        self.addresses = parse(self.urls)
        check_timeout(self.timeout)
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file: must be given together with key_file")
        plain = [address for address, tls in self.addresses if not tls]
        for name in ("ca_file", "certificate_file", "server_name"):
            if plain and getattr(self, name):
                raise ValueError(f"{name}: needs grpcs://, which {plain[0]} is not")
        self.namespace = _word("namespace", self.namespace)
        self.options = list(CHANNEL_OPTIONS)
        if self.server_name:
            self.options.append(("grpc.ssl_target_name_override", self.server_name))
        self.pid = os.getpid()
        self._fixed = None if callable(self.token) else self._metadata(self.token)

    def _metadata(self, token: Optional[str]) -> Tuple[Tuple[str, str], ...]:
        namespace = (("lockstock-namespace", self.namespace),) if self.namespace else ()
        token = _word("token", token)
        return namespace + ((("authorization", f"Bearer {token}"),) if token else ())

    def metadata(self) -> Tuple[Tuple[str, str], ...]:
        """The metadata of a call. A function for the token is called for each try."""
        return self._fixed if self._fixed is not None else self._metadata(self.token())  # type: ignore[operator,misc]

    def credentials(self) -> grpc.ChannelCredentials:
        def read(path: Optional[str]) -> Optional[bytes]:
            if not path:
                return None
            with open(path, "rb") as file:
                return file.read()

        return grpc.ssl_channel_credentials(read(self.ca_file), read(self.key_file), read(self.certificate_file))
