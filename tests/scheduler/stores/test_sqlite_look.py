"""
A scan of a SQLite file while other processes write to it.
"""

from __future__ import annotations

from contextlib import closing

from tickwheel.jobs import model
from tickwheel.stores import Cursor, open_store


def test_writes_after_a_scan_are_found_by_the_next(tmp_path, monkeypatch):
    """
    A scan records its position before it reads.

    So the next scan returns the writes that were made after these reads.
    """
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with closing(open_store(url)) as store, closing(open_store(url)) as peer:
        (lease,) = store.acquire("owner")
        due = store.due

        def due_and_late(*of):
            found = due(*of)
            peer.apply([model.Set(model.Job("key", 0, 5))])
            monkeypatch.undo()
            return found

        monkeypatch.setattr(store, "due", due_and_late)
        (first,) = store.look([Cursor(0, lease.epoch, (0, 0))], 10, 9, with_changes=True)
        assert first.due == []
        (second,) = store.look([Cursor(0, lease.epoch, (9, 0), first.mark)], 10, 9, with_changes=True)
        assert [job.key for job in second.changed] == ["key"]
