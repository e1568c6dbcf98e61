"""
Servers that tests use are stopped at the end, even if one of them fails.
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from processes import lent


class Server:
    """
    A server whose start or stop may fail.
    """

    def __init__(self, folder, made, fails=""):
        self.folder, self.fails, self.is_stopped = folder, fails, False
        made.append(self)

    def start(self):
        if self.fails == "start":
            raise AssertionError(self.fails)

    def stop(self):
        self.is_stopped = True
        if self.fails == "stop":
            raise AssertionError(self.fails)


@pytest.mark.parametrize("fails", ["start", "stop"])
def test_all_are_stopped(fails):
    """
    If a server fails to start or to stop, all servers are still stopped, and all folders are deleted.
    """
    made = []

    def start_three():
        with contextmanager(lent)(Server) as start:
            start(made)
            start(made, fails)
            start(made)

    with pytest.raises(AssertionError, match=fails):
        start_three()
    assert len(made) == (2 if fails == "start" else 3)
    assert [server.is_stopped for server in made] == [True] * len(made)
    assert [server.folder for server in made if server.folder.exists()] == []
