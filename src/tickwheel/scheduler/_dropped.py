from __future__ import annotations

import _thread
import logging
import warnings
import weakref
from contextlib import suppress

from tickwheel.host.backend import Backend
from tickwheel.threads import Thread, original

__all__ = ["stop_when_dropped"]

_STOP_S = 10.0

_log = logging.getLogger("tickwheel.scheduler")


def stop_when_dropped(face: object, core: Backend) -> None:
    """
    Stop *core*, with a ResourceWarning, when the scheduler *face* is garbage collected before the interpreter exits.

    Python hides a ResourceWarning by default, so a scheduler that fires jobs also logs a warning.
    """
    weakref.finalize(face, _stop_dropped, core).atexit = False


def _stop_dropped(core: Backend) -> None:
    if not core.is_in_use:
        return
    with suppress(RuntimeError):  # no thread can start
        # Garbage may be collected anywhere, even inside `threading`: a `Thread` would wait for its locks.
        original(_thread, "start_new_thread")(_begin_to_stop, (core,))
    warnings.warn(f"unclosed scheduler {core}: call stop(), or use it in a with block", ResourceWarning, stacklevel=2)


def _begin_to_stop(core: Backend) -> None:
    Thread(target=_stop, args=(core,), name="tickwheel-dropped", daemon=True).start()


def _stop(core: Backend) -> None:
    if core.is_firing:
        _log.warning("%s fires no more jobs: the program dropped its scheduler; keep a reference until stop()", core)
    with suppress(Exception):  # no caller waits for it
        core.stop(_STOP_S, is_inside=False)
