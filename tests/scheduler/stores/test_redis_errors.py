"""
The table that classifies the errors of Redis as transient or permanent, by their codes.
"""

from __future__ import annotations

import pytest

from tickwheel.stores.redis._errors import store_error

redis = pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")

REPLIES = {
    "LOADING Redis is loading the dataset in memory": True,
    "READONLY You can't write against a read only replica. script: 1, on @user_script:20.": True,
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": True,
    "CLUSTERDOWN The cluster is down": True,
    "CLUSTERDOWN Hash slot not served": True,
    "TRYAGAIN Multiple keys request during rehashing of slot": True,
    "ASK 3999 127.0.0.1:6381": True,
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": True,
    "UNKILLABLE Sorry the script already executed write commands against the dataset.": True,
    "NOREPLICAS Not enough good replicas to write.": True,
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": True,
    "IOERR error or timeout reading to target instance": True,
    "ERR max number of clients reached": True,
    "OOM command not allowed when used memory > 'maxmemory'. script: 1, on @user_script:20.": False,
    "MOVED 3999 127.0.0.1:6381": False,
    "WRONGPASS invalid username-password pair or user is disabled.": False,
    "NOAUTH Authentication required.": False,
    "NOPERM User least has no permissions to run the 'zrem' command": False,
    "DENIED Redis is running in protected mode because protected mode is enabled": False,
    "WRONGTYPE Operation against a key holding the wrong kind of value": False,
    "ERR unknown command": False,
}


@pytest.mark.parametrize("reply", REPLIES)
def test_replies(reply):
    """
    The store's table of errors says whether each error reply is transient or permanent.

    The outcome of the call is known, because the server has refused the call.
    """
    error = redis._parsers.base.BaseParser.parse_error(reply)
    found = store_error(error, "redis", is_sent=True)
    assert (found.is_transient, found.is_unknown) == (REPLIES[reply], False)
