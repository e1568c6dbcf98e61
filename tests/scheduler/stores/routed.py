"""
A plugin of pytest: the schedulers that the tests make have two primaries, not one.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.scale.router import RoutedScheduler

from tickwheel.scheduler import Scheduler

CONFTEST = Path(__file__).parents[1] / "conftest.py"


def over_two(url, **more):
    """
    Return a scheduler over two stores of the kind of *url*, or on what else it is.
    """
    if not isinstance(url, str) or url.startswith("http"):
        return Scheduler(url, **more)
    return RoutedScheduler(url, url.replace("jobs.db", "more.db"), **more)


def pytest_collection_finish(session):
    """
    Let the fixture `make` make these.
    """
    (conftest,) = (each for each in session.config.pluginmanager.get_plugins() if is_conftest(each))
    conftest.Scheduler = over_two


def is_conftest(plugin):
    """
    Return whether *plugin* is the module of the fixture.
    """
    return getattr(plugin, "__file__", None) == str(CONFTEST)
