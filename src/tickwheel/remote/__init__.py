"""
A scheduler whose jobs another process fires: the same verbs over HTTP.

    _address     which address is a service's
    _core        what both faces of the scheduler are built on, as `scheduler._core` is for a store
    _client      the verbs on jobs; checks are the scheduler's own, before anything is sent
    _pulls       the verbs of workers
    _puller      registered handlers, run here: they pull
    _loop        where their coroutines run, and requests
    _wire        what is asked and answered, as documents
    _errors      which problem is which error
    transport    requests, sent again until they are answered

What it cannot do is an `UnsupportedError` that says where it can be done: further targets, a clock, a tracer and events
belong to the process that fires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel._later import later
from tickwheel.remote._address import is_service

if TYPE_CHECKING:
    from tickwheel.remote._core import RemoteCore
else:  # most schedulers have a store of their own
    __getattr__, __dir__ = later(__name__, {"tickwheel.remote._core": ("RemoteCore",)})

__all__ = ["RemoteCore", "is_service"]
