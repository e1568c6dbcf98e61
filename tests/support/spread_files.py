"""
Large files are shared among several processes of pytest-xdist. Files with a common expensive fixture go to one process.
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
"""Number of parts into which each of these large test files is divided."""
TOGETHER = {
    "tests/house/test_layers.py": "tests/house",
    "tests/house/test_public_names.py": "tests/house",
    "tests/house/test_recipes.py": "tests/house",
    "tests/lab/test_teacher.py": "tests/service/page",
    "tests/service/page/test_screens.py": "tests/service/page",
}
"""Group of each test file that shares something costly with other files. All files of a group run in one process.

The first group parses every module of the package, and the second uses a browser."""


def part_of(nodeid):
    """
    Return the name of the unit to which the test *nodeid* belongs.

    The tests of a unit run in one process. A unit is a part of a file, a file, or a group of files.
    """
    file = nodeid.partition("::")[0]
    return f"{file}#{zlib.crc32(nodeid.encode()) % SPREAD[file]}" if file in SPREAD else TOGETHER.get(file, file)


with suppress(ImportError):
    from xdist.scheduler import LoadFileScheduling

    class SpreadScheduling(LoadFileScheduling):
        """
        Like `--dist loadfile`, but several processes share a large file.

        A group of files goes to one process.
        """

        def _split_scope(self, nodeid):
            return part_of(nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(config, log):
        """
        Replace the scheduling of `--dist loadfile` by `SpreadScheduling`.
        """
        return SpreadScheduling(config, log) if config.option.dist == "loadfile" else None
