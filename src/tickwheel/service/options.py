from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.service.errors import CertificateError, PublicBindError, TraceUrlError
from tickwheel.service.tokens import Tokens
from tickwheel.typing import Duration

__all__ = ["ServiceOptions", "is_loopback"]


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """
    The options of the service: its address and its limits.

    Seconds may also be a timedelta or text such as "30m".

    Attributes:
        host: The address to listen on. An address that other machines can reach needs tokens.
        port: The port; 0 takes any free port.
        tls_cert: A PEM file with the certificate and its chain, for HTTPS; None for HTTP.
        tls_key: A PEM file with the key, without a password; None if *tls_cert* contains the key.
        tokens: The tokens for reading and writing. Without tokens, every client may read and write.
        allow_hosts: Host names that are allowed in addition to loopback's names, if there are no tokens.
        body_bytes_max: Maximum size of the body of a single job, in bytes. The default has room for a payload of 1 MiB.
        page_max: Maximum number of jobs on one page of a list.
        rate_per_s: Maximum number of requests per second of one client; None for no limit.
        pending_max: Maximum number of pending jobs, as counted four times a second; None for no limit.
        every_min_s: Minimum interval of recurring jobs, so that clients cannot overload the service.
        request_timeout_s: Maximum time, in seconds, until a connection begins its first request, and until a request
            has arrived completely.
        watchers_max: Maximum number of live pages.
        stop_timeout_s: Maximum number of seconds that a stop waits for running handlers.
        advertise: The URL at which other nodes of the store reach this service. None means the address that the service
            listens on; for a wildcard, the address from which this machine reaches the store.
        trace_url: The address of a trace, for links on the page. It contains {trace_id} in place of the id.

    Raises:
        InvalidJobError: If an option is out of its range; the message names the option.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    tls_cert: str | None = None
    tls_key: str | None = None
    tokens: Tokens = field(default_factory=Tokens)
    allow_hosts: frozenset[str] = frozenset()
    body_bytes_max: int = (1 << 20) + (1 << 16)
    batch_bytes_max: int = 16 << 20
    page_max: int = 1000
    rate_per_s: float | None = None
    pending_max: int | None = None
    every_min_s: Duration = 1.0
    request_timeout_s: Duration = 30.0
    connections_max: int = 20_000
    watchers_max: int = 100
    stop_timeout_s: Duration = 10.0
    advertise: str | None = None
    trace_url: str | None = None

    def __post_init__(self) -> None:
        checks.positive_s("request_timeout_s", self.request_timeout_s)
        for name in ("every_min_s", "stop_timeout_s"):
            value = getattr(self, name)
            if not checks.seconds(name, value) >= 0:
                raise InvalidJobError(name, value, "pass seconds, at least 0")

    def check(self) -> None:
        """
        Refuse unsafe or invalid options.

        Raises a PublicBindError, a CertificateError that names the file, or a TraceUrlError.
        """
        if not self.tokens and not is_loopback(self.host):
            raise PublicBindError(self.host)
        if self.tls_cert is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_cert, self.tls_key, _no_password)
            except (OSError, ValueError) as error:  # the files cannot be read, or their contents are invalid
                raise CertificateError(self.tls_cert, str(error)) from None
        elif self.tls_key is not None:
            raise CertificateError(self.tls_key, "it is the key of no certificate")
        if self.trace_url is not None and not _leads_to_traces(self.trace_url):
            raise TraceUrlError(self.trace_url)


def _no_password() -> str:
    raise ValueError("its key has a password, for which nobody is there to ask")


def _leads_to_traces(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # an unclosed bracket
        return False
    return parts.scheme in {"http", "https"} and bool(parts.netloc) and "{trace_id}" in url


def is_loopback(host: str) -> bool:
    """
    Return True if only this machine reaches *host*. `localhost` is the only host name for which this is certain.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
