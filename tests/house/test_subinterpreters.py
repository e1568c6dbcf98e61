"""
An import in a subinterpreter raises an error that says what to do instead.
"""

from __future__ import annotations

import subprocess
import sys

# A subinterpreter as mod_wsgi makes them, with the GIL of the main one, and then the main one itself.
SCRIPT = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
    run, other = interpreters.run_string, interpreters.create(isolated=False)
else:
    run, other = interpreters.exec, interpreters.create("legacy")

run(other, '''
for name in ("TimerWheel", "ManualDriver"):
    try:
        exec(f"from tickwheel import {name}")
        import tickwheel._core
    except ImportError as error:
        print(error, flush=True)
''')
interpreters.destroy(other)

from tickwheel import ManualDriver, TimerWheel

wheel = TimerWheel(driver=ManualDriver())
try:
    wheel.call_later(float("nan"), print)
except ValueError as error:
    print(type(error).__name__)
print(wheel.call_later(5.0, print).pending())
wheel.close()
"""


def test_the_core_is_refused_in_a_subinterpreter_and_works_in_the_main_one():
    """
    Each import in a subinterpreter raises an ImportError that names the remedy.

    The main interpreter is not affected.
    """
    ran = subprocess.run([sys.executable, "-P", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    *refused, error, is_pending = ran.stdout.splitlines()
    assert (error, is_pending) == ("InvalidDelayError", "True")
    assert len(refused) == 2
    assert all("main interpreter only" in text and "WSGIApplicationGroup" in text for text in refused)
