"""
Fixtures of all tests: real traces with expected results, a browser, and a function that polls.
"""

import argparse
import gc
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["cpu_seconds", "lent_servers", "quick_set", "spread_files", "wall_clock"]

pytest.register_assert_rewrite("tickwheel.testing")  # this must come before anything imports a suite

SHARED = Path(__file__).parents[2] / "shared"
SERVERS = Path(__file__).parents[1] / "scripts" / "servers"
SYSTEMS = Path(__file__).parent / "systems"
PATIENCE_S = 60
CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
)


def shown_system() -> str | None:
    """
    Return the operating system that the tests simulate because of the option `--as`, or None.

    The next conftest.py may import tickwheel before pytest parses options, so the option is parsed here.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--as", dest="system", default=os.environ.get("TICKWHEEL_AS"))
    return parser.parse_known_args()[0].system


SYSTEM = shown_system()
if SYSTEM is not None:  # in this process, and in those that tests start
    os.environ.update(TICKWHEEL_AS=SYSTEM, PYTHONPATH=str(SYSTEMS))
spec = importlib.util.spec_from_file_location("systems", SYSTEMS / "sitecustomize.py")
systems = importlib.util.module_from_spec(spec)
spec.loader.exec_module(systems)


def pytest_addoption(parser: pytest.Parser) -> None:
    """
    Add the option `--as`.
    """
    parser.addoption("--as", dest="system", choices=("macos", "windows"), help="run without what that system lacks")


def pytest_configure(config: pytest.Config) -> None:
    """
    Load tickwheel's pytest plugin here if a system is simulated.

    The plugin could not be loaded before the simulation started.
    """
    if SYSTEM is not None:
        from tickwheel.testing import plugin  # noqa: PLC0415  it sees that system now

        config.pluginmanager.register(plugin, "tickwheel-as")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """
    Freeze the many thousand collected tests, so that garbage collections in the tests do not scan them.
    """
    with suppress(ImportError):
        import hypothesis  # noqa: F401, PLC0415  pytest does so later, and it looks for referrers, which are frozen then
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """
    After each file, exempt all objects that are still alive from garbage collection.

    Libraries and session fixtures stay alive. Otherwise each full collection of a later test would last a second.
    """
    try:
        return (yield)
    finally:
        if nextitem is not None and nextitem.path != item.path:
            gc.collect()
            gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """
    Skip a test that needs a feature which the system (real or simulated) lacks: `@pytest.mark.needs("os.fork")`.
    """
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if not systems.has(name, SYSTEM):
                pytest.skip(f"this system has no {name}")


@pytest.fixture(scope="session")
def let_through() -> Callable[[Path], None]:
    """
    Return a function that makes a temporary folder accessible to other users, by opening its parent folders.

    pytest creates these parent folders for one user only.
    """
    root = Path(tempfile.gettempdir())

    def open_parents(folder: Path) -> None:
        for parent in folder.parents:
            if root not in parent.parents:
                return
            parent.chmod(parent.stat().st_mode | 0o055)

    return open_parents


@pytest.fixture(scope="session")
def traces() -> Path:
    """
    Return the directory of the real traces.
    """
    path = SHARED / "traces"
    if not path.is_dir():
        pytest.skip("../shared/traces is not here")
    return path


@pytest.fixture(scope="session")
def oracle() -> Callable[[Path], dict[str, int]]:
    """
    Return the oracle: a timer queue of a heap and a dict, written by other authors.
    """
    path = SHARED / "suites" / "replay_oracle.py"
    if not path.is_file():
        pytest.skip("../shared/suites/replay_oracle.py is not here")
    spec = importlib.util.spec_from_file_location("replay_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    replay: Callable[[Path], dict[str, int]] = module.replay
    return replay


@pytest.fixture(scope="session")
def run_proof() -> Callable[[list[str], float], subprocess.CompletedProcess[str]]:
    """
    Return a function that runs a program which starts other programs.

    At the timeout the program is interrupted, so that it can stop these programs.
    """

    def run(command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            try:
                output, errors = program.communicate(timeout=timeout_s)
            except BaseException:
                program.send_signal(signal.SIGINT)
                program.communicate(timeout=60)
                raise
        return subprocess.CompletedProcess(command, program.returncode, output, errors)

    return run


def missing_programs() -> list[str]:
    """
    Return the programs of `make servers` that this machine lacks.

    The list is empty if there is no bash to check them.
    """
    try:
        answer = subprocess.run([SERVERS, "--missing"], capture_output=True, text=True, check=False)
    except OSError:
        return []
    return answer.stdout.split()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter) -> Iterator[None]:
    """
    Print how many tests were skipped because a server or a browser is missing, below pytest's list of skips.

    Also print the command that installs them.
    """
    yield
    skipped = terminalreporter.stats.get("skipped", ())
    if not skipped or not (missing := missing_programs()):
        return
    named = re.compile(rf"\b({'|'.join(map(re.escape, missing))})\b", re.IGNORECASE)
    if count := sum(bool(named.search(report.longrepr[2])) for report in skipped):
        terminalreporter.write_line(
            f"missing here: {', '.join(missing)}; tests skipped for want of them: {count}; `make servers` installs them"
        )


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """
    Return one browser for all tests: Debian's Chromium, driven by Debian's chromedriver.
    """
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*CHROMIUM, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """
    Return a function that calls its argument until the result is true, and then returns that result.
    """

    def ask(call: Callable[[], Any]) -> Any:
        give_up = time.monotonic() + PATIENCE_S
        while not (found := call()):
            assert time.monotonic() < give_up, f"it did not come within {PATIENCE_S} s"
            time.sleep(0.05)  # the condition gives no signal
        return found

    return ask
