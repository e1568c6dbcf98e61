from __future__ import annotations

import ctypes
import mmap
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

__all__ = ["resident_bytes"]

_PAGES: Final = Path("/proc/self/statm")


def resident_bytes() -> int:
    # On macOS, this is the maximum so far.
    if _PAGES.exists():
        _give_back()
        return int(_PAGES.read_text().split()[1]) * mmap.PAGESIZE
    if find_spec("resource") is not None:
        import resource  # noqa: PLC0415 Windows has none

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _working_set()


def _give_back() -> None:
    # Release free memory first. Otherwise the wheel would use memory that an earlier step has freed, and it would not
    # be seen.
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:  # glibc
        give_back(0)


class _MemoryCounters(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("page_faults", ctypes.c_uint32),
        ("peak_working_set", ctypes.c_size_t),
        ("working_set", ctypes.c_size_t),
        ("others", ctypes.c_size_t * 6),
    )


def _working_set() -> int:
    kernel: Any = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    kernel.K32GetProcessMemoryInfo.argtypes = [ctypes.c_void_p, ctypes.POINTER(_MemoryCounters), ctypes.c_uint32]
    counters = _MemoryCounters(size=ctypes.sizeof(_MemoryCounters))
    if not kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.size):
        raise ctypes.WinError(ctypes.get_last_error())  # type: ignore[attr-defined]
    return int(counters.working_set)
