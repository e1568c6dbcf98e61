from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Job, JobQuery, Outcome, Set, Settled
from tickwheel.testing.store_suite._base import StoreTests, refused

KEYS = (
    " ",
    "'; DROP TABLE tickwheel_job; --",
    "%s {} $1 ?1 :key \\",
    "\t\r\n\x01\x7f\x80\x85",
    "ﬃ ffi FFI ﬀi",
    "é e\u0301",
    "\u0130 i\u0307 \u0131 I",
    "שלום עולם",
    "\u202eabc\u202c",
    "\ufeffbom",
    "👩‍👩‍👧‍👦 🏳️‍🌈",
    "\U000e0001",
    "\ufffe\uffff",
    f"{chr(sys.maxunicode)}",
    "k" * 512,
    "é" * 256,
)


class InputTests(StoreTests):
    def test_odd_keys(self) -> None:
        with self.rig() as rig:
            variants = [*KEYS, *(key.upper() for key in KEYS), *(f"{key} " for key in KEYS)]
            keys = sorted(set(variants))
            for key in keys:
                assert rig.set(key, payload=key.encode()).outcome is Outcome.CREATED
            for key in keys:
                job = rig.get(key)
                assert (job.key, job.payload) == (key, key.encode())
                assert rig.begin(job) is Outcome.BEGUN
                assert rig.settle(job).outcome is Outcome.SETTLED
            assert rig.counts() == (0, 0, 0)

    def test_odd_errors(self) -> None:
        with self.rig() as rig:
            for number, error in enumerate(("nul \0 byte", "lone \udc80 surrogate", "x" * 100_000, "")):
                for how in (Settled.AGAIN, Settled.DEAD):
                    job = rig.running(f"{how} {number}")
                    assert rig.settle(job, how, attempt=1, error=error).outcome is Outcome.SETTLED
                    stored = rig.get(job.key).error
                    assert stored is not None
                    assert stored[:4] == error[:4]

    def test_large_payload(self) -> None:
        payload = bytes(range(256)) * 4_096
        with self.rig() as rig:
            job = rig.pending("large", payload=payload)
            assert rig.get("large").payload == payload
            assert rig.due() == [job]

    def test_what_cannot_be_stored(self) -> None:
        impossible: list[dict[str, Any]] = [
            {"due_at": 2**63},
            {"due_at": -(2**63) - 1},
            {"key": "lone \udc80 surrogate"},
            {"expires_at": 10**30},
            {"handler": "\ud800"},
        ]
        with self.rig() as rig:
            for fields in impossible:
                job = Job(**{"key": "bad", "generation": 0, "due_at": rig.now, **fields})
                error = refused(StoreError, lambda job=job: rig.store.apply([Set(job)]))  # type: ignore[misc]
                assert not error.is_transient
                assert rig.counts() == (0, 0, 0)
            assert rig.set("good").outcome is Outcome.CREATED

    def test_what_cannot_be_asked(self) -> None:
        """
        A key that no row can have is refused or not found. Times in a query may have any value, even beyond int64.
        """
        with self.rig() as rig:
            rig.pending("key")
            with suppress(StoreError):
                assert rig.store.get("lone \udc80 surrogate") is None
            assert len(rig.store.page(JobQuery(due_from=-(10**30), due_until=10**30)).jobs) == 1
            assert len(rig.due(until=10**30)) == 1
