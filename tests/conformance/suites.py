"""
The test suites of other projects, and how each is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["EACH_PYTHON", "NEWEST_PYTHON", "Suite"]

MIXINS: Final = str(Path(__file__).with_name("mixins.py"))

PYTEST: Final = ("-o", "addopts=", "-p", "no:cacheprovider", "-q", "--tb=short")


@dataclass(frozen=True)
class Suite:
    """
    A test suite of another project.

    Attributes:
        name: Its name in the table.
        module: The module that it needs.
        runner: pytest, trial, or the module or file that runs the tests with unittest.
        arguments: Arguments of the runner.
        sdist: The project whose unpacked sdist is the working folder. If this is empty, the folder is new.
        swap: The folder in `swap` that comes first on the path of the run on tickwheel's loop. It replaces parts of
            asyncio.
    """

    name: str
    module: str
    runner: str
    arguments: tuple[str, ...]
    sdist: str = ""
    swap: str = "loop"


EACH_PYTHON: Final = (
    Suite("test.test_asyncio", "test.test_asyncio", "unittest", ("-v", "test.test_asyncio")),
    Suite("its mixins for loops", "test.test_asyncio", MIXINS, ("-v",)),
    Suite(
        "its timeouts, on ours",
        "test.test_asyncio",
        "unittest",
        ("-v", "test.test_asyncio.test_timeouts", "test.test_asyncio.test_waitfor"),
        swap="timeouts",
    ),
)
"""CPython's own tests. They differ between versions, so each interpreter runs the tests of its version."""

# The parts of aiohttp that run on a loop; tests that only parse, measure or need containers are left out.
AIOHTTP: Final = """
    base_protocol client_connection client_functional client_proto client_session client_ws_functional connector
    flowcontrol_streams helpers leaks loop proxy_functional resolver run_app streams tcp_helpers test_utils web_app
    web_functional web_protocol web_request_handler web_runner web_sendfile_functional web_server
    web_websocket_functional
"""
# The parts of twisted that run on its reactor.
TWISTED: Final = """
    application defer defgen internet iosim process protocols ssl stdio task tcp threads udp unix
"""


def named(pattern: str, names: str) -> tuple[str, ...]:
    return tuple(pattern.format(name) for name in names.split())


NEWEST_PYTHON: Final = (
    Suite("tornado", "tornado.test", "tornado.test", ("--verbose",)),
    Suite(
        "twisted",
        "twisted.trial",
        "trial",
        (
            "--reactor=asyncio",
            "--temp-directory=trial",
            "twisted.internet.test",
            *named("twisted.test.test_{}", TWISTED),
        ),
    ),
    Suite(
        "anyio",
        "anyio",
        "pytest",
        # Without IPv6 its tests leave sockets behind, and the time of a garbage collection decides which test reports
        # that.
        (*PYTEST, "-p", "no:unraisableexception", "-k", "not trio and not uvloop", "-m", "not network", "tests"),
        "anyio",
    ),
    Suite(
        "aiohttp",
        "aiohttp",
        "pytest",
        (*PYTEST, "-m", "not dev_mode and not internal", *named("tests/test_{}.py", AIOHTTP)),
        "aiohttp",
    ),
)
