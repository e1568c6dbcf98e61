"""
The engines that schedulers start.

Tests observe the public part of `tickwheel.engine.engine.Engine`.
"""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

from tickwheel.engine.engine import Engine


@contextmanager
def noted_engines():
    """
    Yield a list to which every engine that starts within the block is appended.
    """
    noted, start = [], Engine.start

    def noting(engine):
        noted.append(engine)
        start(engine)

    with mock.patch.object(Engine, "start", noting):
        yield noted
