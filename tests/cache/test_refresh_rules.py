"""
Invalid refresh rules are refused.
"""

from __future__ import annotations

import math

import pytest

from tickwheel.cache import Refresh, TTLCache


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({"ahead": -1}, ValueError, "ahead is -1: pass 0 or more"),
        ({"stale_if_error": math.inf}, ValueError, "stale_if_error is inf: pass at most a year, so that values leave"),
        ({"stale_while_revalidate": math.nan}, ValueError, "stale_while_revalidate is nan"),
        ({"ahead": "5"}, TypeError, "ahead is '5'"),
        ({"loads_max": 0}, ValueError, "loads_max is 0: pass an integer, 1 or more"),
        ({"loads_max": math.nan}, TypeError, "loads_max is nan: pass an integer, 1 or more"),
        ({"loads_max": math.inf}, TypeError, "loads_max is inf: pass an integer, 1 or more"),
        ({"loads_max": 2.5}, TypeError, r"loads_max is 2\.5: pass an integer, 1 or more"),
        ({"loads_max": True}, TypeError, "loads_max is True: pass an integer, 1 or more"),
        ({"loads_max": "4"}, TypeError, "loads_max is '4': pass an integer, 1 or more"),
    ],
)
def test_rules_that_are_none(rules, error, message):
    with pytest.raises(error, match=message):
        Refresh(**rules)


def test_caches_that_cannot_be_refreshed():
    """
    A cache accepts only a Refresh as its refresh rules. A subclass that overrides `__getitem__` accepts none.
    """

    class Own(TTLCache):
        def __getitem__(self, key):
            return super().__getitem__(key)

    with pytest.raises(TypeError, match=r"refresh is 5: pass a tickwheel\.cache\.Refresh"):
        TTLCache(10, 60.0, refresh=5)
    with pytest.raises(TypeError, match="Own has item methods of its own"):
        Own(10, 60.0, refresh=Refresh(ahead=1.0))
