"""
The pipe with which a thread ends another's poll, made from what every POSIX system has: macOS has no pipe2.
"""

from __future__ import annotations

import os

__all__ = ["wake_pipe"]


def wake_pipe() -> tuple[int, int]:
    """
    Return a pipe's reading and writing end; neither blocks, and neither is inherited.
    """
    woken, waker = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waker, False)
    return woken, waker
