"""
The HTTP service and its page.

    app         puts the parts together into one ASGI application
    mounted     the same inside another ASGI application
    server      binds, serves, and stops within its time
    routes      every operation of the API, as a table
    problems    every answer that is not a success, as a table
    jobs        set, move, cancel, get, list
    batch       many of these with one request
    schedules   what comes back, and when
    pull        lease, acknowledge, refuse, extend, for workers
    guard       who is let in; refusals what this service will not set
    firings     what fired of late, and how late
    live        the page's stream of firings and figures
    figures     stats, forecast, metrics, health
    bodies      what comes in, and documents what goes out; rules when a job comes back
    strict_json, msgpack, intake    how it is read and written
"""

from __future__ import annotations

from importlib.util import find_spec

from tickwheel.errors import MissingExtraError
from tickwheel.service._system import LIBRARIES

for _library in LIBRARIES:
    if find_spec(_library) is None:
        raise MissingExtraError(_library, "service")

from tickwheel.service.app import Service  # noqa: E402  the libraries are there from here on
from tickwheel.service.errors import (  # noqa: E402 the libraries are there from here on
    AddressError,
    CertificateError,
    PublicBindError,
    TokenFileError,
    TraceUrlError,
)
from tickwheel.service.mounted import tickwheel_app  # noqa: E402  the libraries are there from here on
from tickwheel.service.options import ServiceOptions  # noqa: E402 the libraries are there from here on
from tickwheel.service.server import serve  # noqa: E402 the libraries are there from here on
from tickwheel.service.tokens import Tokens  # noqa: E402 the libraries are there from here on

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
