"""
The detection of coroutine functions, whether `inspect` is loaded or not.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from functools import partial
from tickwheel.timers._coroutines import is_coroutine_function

async def slow(*args): pass
def quick(*args): pass
async def stream(): yield
class Both:
    async def slow(self, *args): pass
    def quick(self, *args): pass
    async def __call__(self): pass

{first}
for callback in (slow, Both().slow, partial(slow, 1), partial(partial(Both().slow, 1), 2)):
    assert is_coroutine_function(callback), callback
for callback in (quick, Both().quick, partial(quick, 1), print, Both, Both(), stream, partial(print), slow.__name__):
    assert not is_coroutine_function(callback), callback
assert ("inspect" in sys.modules) is {is_loaded}
"""


@pytest.mark.parametrize("is_loaded", [False, True])
def test_coroutine_functions_are_known(is_loaded):
    """
    `async def` functions, and methods and partials of them, are detected, with and without `inspect`.
    """
    script = SCRIPT.format(
        first="import inspect" if is_loaded else "sys.modules.pop('inspect', None)", is_loaded=is_loaded
    )
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="inspect.markcoroutinefunction is new in 3.12")
def test_a_marked_function_is_known():
    """
    A plain function that is marked as a coroutine function is detected.
    """
    script = (
        "import inspect; from tickwheel.timers._coroutines import is_coroutine_function as known\n"
        "assert known(inspect.markcoroutinefunction(lambda: None)) and not known(lambda: None)"
    )
    answer = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")
