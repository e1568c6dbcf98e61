"""
The service's options.
"""

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
    The options of the service: where it listens, and its limits.

    Seconds may be a timedelta or text such as "30m", too.

    Attributes:
        host: The address to listen on; one that other machines reach needs tokens.
        port: The port; 0 takes any free one.
        tls_cert: A PEM file with the certificate and its chain, for HTTPS; None for HTTP.
        tls_key: A PEM file with its key, without a password; None if *tls_cert* has it.
        tokens: What may read and write; without any, every client that reaches the address may.
        allow_hosts: Names that a Host header may have besides loopback's, where no token is needed.
        body_bytes_max: The longest body of a single job: a payload of 1 MiB, and what surrounds it.
        batch_bytes_max: The longest body of a batch.
        page_max: The most jobs on one page of a list.
        rate_per_s: How often one client may ask, in requests a second; None for any number.
        pending_max: How many jobs may be pending, as counted four times a second; None for any number.
        every_min_s: The least interval of recurring jobs: a smaller one would be a way to keep the service busy.
        request_timeout_s: How long a connection may take to send its first request, and any request to arrive whole.
        connections_max: How many connections may be open.
        watchers_max: How many pages may be live at once.
        stop_timeout_s: How long a stop waits for handlers that run.
        advertise: The URL at which other nodes of the store reach this service; None for the address that it listens
            on, or, where that is a wildcard, for the address of this machine that leads to the store.
        trace_url: Where a trace is shown, with {trace_id} in the place of its id, for the page to link to.
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
        """
        Refuse lengths of time that nothing can work with.
        """
        checks.positive_s("request_timeout_s", self.request_timeout_s)
        for name in ("every_min_s", "stop_timeout_s"):
            value = getattr(self, name)
            if not checks.seconds(name, value) >= 0:
                raise InvalidJobError(name, value, "pass seconds, at least 0")

    def check(self) -> None:
        """
        Refuse to be reached from other machines without a token, and a certificate or an address that cannot be used.

        Raises:
            PublicBindError: If that would be so.
            CertificateError: Naming the file.
            TraceUrlError: If the address of traces is none.
        """
        if not self.tokens and not is_loopback(self.host):
            raise PublicBindError(self.host)
        if self.tls_cert is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.tls_cert, self.tls_key, _no_password)
            except (OSError, ValueError) as error:  # an error of the files, or of what is in them
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
    except ValueError:  # a bracket without its end
        return False
    return parts.scheme in {"http", "https"} and bool(parts.netloc) and "{trace_id}" in url


def is_loopback(host: str) -> bool:
    """
    Return whether only this machine reaches *host*; a name is trusted only if it is `localhost`.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
