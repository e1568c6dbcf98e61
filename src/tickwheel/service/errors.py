"""
The service's errors. The columns are the class, its built-in base, whether a retry can succeed, and the remedy.

    TickwheelError
      PublicBindError           ValueError    permanent   set a token, or listen on loopback only
      CertificateError          ValueError    permanent   name a PEM file with a certificate, and its key
      TraceUrlError             ValueError    permanent   write an address with {trace_id} in it
      AddressError              OSError       transient   free the port, or take another
      TokenFileError            ValueError    permanent   mend the line that the message names
"""

from __future__ import annotations

from tickwheel.errors import TickwheelError

__all__ = ["AddressError", "CertificateError", "PublicBindError", "TokenFileError", "TraceUrlError"]


class PublicBindError(TickwheelError, ValueError):
    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"host {host!r} may be reachable from other machines and no token is set: "
            "make one with 'tickwheel token', or bind to 127.0.0.1"
        )


class CertificateError(TickwheelError, ValueError):
    def __init__(self, path: str, what: str) -> None:
        self.path = path
        super().__init__(
            f"the certificate {path!r} cannot be used ({what}): pass PEM files of a certificate and its key"
        )


class TraceUrlError(TickwheelError, ValueError):
    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(
            f"the address of traces is {url!r}: write http or https and {{trace_id}}, such as "
            "https://traces.example.com/trace/{trace_id}"
        )


class AddressError(TickwheelError, OSError):
    is_transient = True

    def __init__(self, host: str, port: int, cause: OSError) -> None:
        self.host, self.port = host, port
        super().__init__()
        reason = (cause.strerror or str(cause)).lower()
        remedy = "stop what listens there, or take another port (0 takes any free one)"
        # OSError reads its arguments in __new__, which gets none here.
        self.args = (f"{host}:{port} cannot be listened on ({reason}): {remedy}",)


class TokenFileError(TickwheelError, ValueError):
    def __init__(self, path: str, what: str) -> None:
        self.path = path
        super().__init__(
            f"token file {path!r}: {what}: each line is 'read HASH' or 'write HASH', as 'tickwheel token' prints it"
        )
