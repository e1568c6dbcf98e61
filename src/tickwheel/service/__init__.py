"""
The HTTP service and its page. `routes` lists every operation of the API, and `problems` every error answer.
"""

from __future__ import annotations

from importlib.util import find_spec

from tickwheel.errors import MissingExtraError
from tickwheel.service._system import LIBRARIES

for _library in LIBRARIES:
    if find_spec(_library) is None:
        raise MissingExtraError(_library, "service")

from tickwheel.service.app import Service  # noqa: E402  imported only if the libraries are installed
from tickwheel.service.errors import (  # noqa: E402 imported only if the libraries are installed
    AddressError,
    CertificateError,
    PublicBindError,
    TokenFileError,
    TraceUrlError,
)
from tickwheel.service.mounted import tickwheel_app  # noqa: E402  imported only if the libraries are installed
from tickwheel.service.options import ServiceOptions  # noqa: E402 imported only if the libraries are installed
from tickwheel.service.server import serve  # noqa: E402 imported only if the libraries are installed
from tickwheel.service.tokens import Tokens  # noqa: E402 imported only if the libraries are installed

__all__ = [
    "AddressError",
    "CertificateError",
    "PublicBindError",
    "Service",
    "ServiceOptions",
    "TokenFileError",
    "Tokens",
    "TraceUrlError",
    "serve",
    "tickwheel_app",
]
