"""
The engines that schedulers start. A test observes the public part of `tickwheel.engine.engine.Engine`.
"""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

from tickwheel.engine.engine import Engine


@contextmanager
def noted_engines():
    """
    Yield a list that gets every engine that starts meanwhile.
    """
    noted, start = [], Engine.start

    def noting(engine):
        noted.append(engine)
        start(engine)

    with mock.patch.object(Engine, "start", noting):
        yield noted
