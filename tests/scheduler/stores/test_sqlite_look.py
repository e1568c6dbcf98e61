"""
A scan of a SQLite file while other processes write to it.
"""

from __future__ import annotations

from contextlib import closing

from tickwheel.jobs import model
from tickwheel.stores import Cursor, open_store


def test_what_is_written_after_the_scan_of_a_look(tmp_path, monkeypatch):
    """
    A scan notes its position before it reads, so that the next scan returns writes made after the reads.
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
