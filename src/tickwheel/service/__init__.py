"""
The HTTP service and its page.

    app         combines the parts into one ASGI application
    mounted     mounts the service inside another ASGI application
    server      binds, serves, and stops within its time
    routes      every operation of the API, as a table
    problems    every error answer, as a table
    jobs        set, move, cancel, get, list
    batch       many sets, moves and cancels with one request
    schedules   recurring jobs and their runs
    pull        lease, acknowledge, refuse, extend, for workers
    guard       access control
    refusals    valid values that this service refuses
    firings     the last firings, and their lateness
    minutes     figures by minute
    lanes       the load of each handler, queue and receiver, over all nodes
    acts        the audit log
    live        the page's stream of firings and figures
    figures     stats, forecast, metrics, health
    bodies      the bodies of requests
    documents   the bodies of answers
    rules       the rule of a recurring job in an answer
    strict_json, msgpack, intake    parsing and encoding
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
