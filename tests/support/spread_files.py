"""
Divides large files among several processes of pytest-xdist, which otherwise gives a file to one process.

The tests of these files share only servers, which each process has anyway. So all processes end at about the same time.
"""

from __future__ import annotations

import zlib
from contextlib import suppress

import pytest

SPREAD = {
    "tests/prove/test_simulation.py": 6,
    "tests/scheduler/stores/test_postgres.py": 4,
    "tests/scheduler/stores/test_redis.py": 2,
    "tests/scheduler/stores/test_sqlite.py": 2,
}
"""Number of parts of each large file."""


def part_of(nodeid):
    """
    Return the name of the file, or of its part, that is given to one process as a whole.
    """
    file = nodeid.partition("::")[0]
    return f"{file}#{zlib.crc32(nodeid.encode()) % SPREAD[file]}" if file in SPREAD else file


with suppress(ImportError):
    from xdist.scheduler import LoadFileScheduling

    class SpreadScheduling(LoadFileScheduling):
        """
        Like `--dist loadfile`, except that a large file is divided among several processes.
        """

        def _split_scope(self, nodeid):
            return part_of(nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(config, log):
        """
        Replace `--dist loadfile`.
        """
        return SpreadScheduling(config, log) if config.option.dist == "loadfile" else None
