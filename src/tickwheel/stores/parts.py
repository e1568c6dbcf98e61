"""
Parts of the shipped stores, for a store of your own that implements the whole protocol.

`BaseStore` already uses them. A store with its own server reads the jobs that a batch names, lets `Plan` decide, and
writes the changes in the same transaction.
"""

from __future__ import annotations

from tickwheel.jobs.columns import ALL, Column
from tickwheel.jobs.rows import job_of, row_of
from tickwheel.jobs.rules import BEGUN, GONE, NOT_OWNER, decide, is_counted, rescued
from tickwheel.stores._manifests import Manifests
from tickwheel.stores._onces import Kept, Onces
from tickwheel.stores._plan import FIRINGS, Differences, Plan, WrongGuessError
from tickwheel.stores._records import act_of, cut_off, has_no_record
from tickwheel.stores._reports import ahead_of, owners_of

__all__ = [
    "ALL",
    "BEGUN",
    "FIRINGS",
    "GONE",
    "NOT_OWNER",
    "Column",
    "Differences",
    "Kept",
    "Manifests",
    "Onces",
    "Plan",
    "WrongGuessError",
    "act_of",
    "ahead_of",
    "cut_off",
    "decide",
    "has_no_record",
    "is_counted",
    "job_of",
    "owners_of",
    "rescued",
    "row_of",
]
