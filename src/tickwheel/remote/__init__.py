"""
A scheduler whose jobs are fired by another process. Its operations are requests over HTTP.

Operations that only the firing process has (further targets, a clock, a tracer, events) raise an `UnsupportedError`.
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
