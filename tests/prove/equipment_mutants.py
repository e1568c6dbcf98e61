"""
Engines and stores with faults: they mishandle unreadable rules or hanging statements.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from simulation._store import SimulatedStore

from tickwheel.engine import _verdict

__all__ = ["ends_what_it_cannot_read", "waits_for_a_statement_that_hangs"]

_HUNG_S = 1_000.0


def ends_what_it_cannot_read() -> Any:
    """
    Fault: if a run ends while the job's rule cannot be read, the whole series ends.
    """
    return mock.patch.object(_verdict, "is_readable", return_value=True)


def waits_for_a_statement_that_hangs() -> Any:
    """
    Fault: store calls have no deadline, so a hanging statement holds its thread for good.
    """
    return mock.patch.object(SimulatedStore, "_hangs_s", return_value=_HUNG_S)
