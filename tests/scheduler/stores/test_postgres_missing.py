"""
The errors of the PostgreSQL store if its driver, or the library libpq that the driver uses, is missing.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
if sys.argv[1] == "driver":
    sys.modules["psycopg"] = None
else:
    import ctypes.util
    sys.modules["psycopg_binary"] = sys.modules["psycopg_c"] = None
    ctypes.util.find_library = lambda name: None
from tickwheel.errors import MissingExtraError
from tickwheel.scheduler import Scheduler
try:
    Scheduler("postgresql://127.0.0.1:1/none").start()
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize(("missing", "named"), [("driver", "psycopg"), ("libpq", "libpq, which psycopg needs,")])
def test_missing_libraries_are_named(missing, named):
    """
    If the driver or libpq is missing, the error names it and the extra that installs both.
    """
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres-binary]'")
    command = [sys.executable, "-P", "-c", SCRIPT, missing]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert answer.stdout == f"{named} is not installed: pip install 'tickwheel[postgres-binary]'\n", answer.stderr
