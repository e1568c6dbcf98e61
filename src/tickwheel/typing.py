"""
Types that several layers name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["Callback", "ErrorHandler"]

Callback: TypeAlias = Callable[..., object]
"""What a timer calls; its result is ignored."""

ErrorHandler: TypeAlias = Callable[[BaseException, Any], None]
"""Gets an exception that a callback raised, and the timer it was raised in."""
