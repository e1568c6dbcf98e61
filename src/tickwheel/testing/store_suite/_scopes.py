from __future__ import annotations

from tickwheel.jobs.model import HistoryRecord, Pause
from tickwheel.testing.store_suite._aside import set_aside, taken
from tickwheel.testing.store_suite._base import OWNER, StoreTests

__all__ = ["ScopeTests"]

NAMES = (("handler", "mail"), ("handler", "print"), ("webhook", "a:b"), ("webhook", "c"), ("webhook", "é"))
SKILLS = (("handler", "mail"), ("handler", "print"), ("webhook", None))


class ScopeTests(StoreTests):
    def test_scopes(self) -> None:
        with self.rig() as rig:
            mail, everything = Pause(5, "me", "smtp is down", "handler:mail"), Pause(7, "you", "", "*")
            assert rig.store.scopes() == []
            assert not rig.store.set_scope("handler:mail", mail, None)
            assert not rig.store.set_scope("*", everything, None)
            assert rig.store.scopes() == [everything, mail]
            again = Pause(9, "him", "é\U0001f600", "handler:mail")
            assert rig.store.set_scope("handler:mail", again, None)
            assert rig.store.scopes() == [everything, again]
            assert rig.store.set_scope("*", None, None)
            assert not rig.store.set_scope("*", None, None)
            assert rig.store.scopes() == [again]

    def test_history(self) -> None:
        with self.rig() as rig:
            record = HistoryRecord(0, 5, "handler:mail", 0, 0, "paused", OWNER, "handler", "mail", 5, error="why")
            rig.store.set_scope("handler:mail", None, record._replace(outcome="resumed"))
            assert rig.store.history("handler:mail", None, 10) == []
            rig.store.set_scope("handler:mail", Pause(5, OWNER, "why", "handler:mail"), record)
            rig.store.set_scope("handler:mail", None, record._replace(at=6, outcome="resumed", error=None))
            newest, oldest = rig.store.history("handler:mail", None, 10)
            assert (newest.at, newest.outcome, newest.error) == (6, "resumed", None)
            assert oldest._replace(number=0) == record

    def test_scope_take_up(self) -> None:
        for paused, open_ in (
            ((), NAMES),
            (("handler:mail",), NAMES[1:]),
            (("handler:mail", "webhook:c"), (*NAMES[1:3], NAMES[4])),
            (("webhook:a:b", "webhook:é", "webhook:gone"), (*NAMES[:2], NAMES[3])),
            (("handler",), NAMES[2:]),
            (("webhook", "webhook:c"), NAMES[:2]),
            (("pull", "mail", "c"), NAMES),
            (("*",), ()),
            (("*", "handler:mail"), ()),
        ):
            with self.rig() as rig:
                lease = rig.lease("{k}")
                for target, handler in NAMES:
                    set_aside(rig, rig.pending(f"{{k}} {target}/{handler}", target=target, handler=handler))
                for scope in paused:
                    rig.store.set_scope(scope, Pause(5, OWNER, "", scope), None)
                found = taken(rig, lease, *SKILLS)
                assert sorted((job.target, job.handler) for job in found) == sorted(open_), paused
                assert taken(rig, lease, *SKILLS) == []
                for scope in paused:
                    rig.store.set_scope(scope, None, None)
                assert len(taken(rig, lease, *SKILLS)) == len(NAMES) - len(open_)

    def test_scope_many(self) -> None:
        """
        If a handler is paused, nodes still find the other jobs of its target, however many jobs are paused.
        """
        with self.rig() as rig:
            lease = rig.lease("{k}")
            for number in range(60):
                set_aside(rig, rig.pending(f"{{k}} p{number}", target="webhook", handler=f"b{number // 30}"))
            for number in range(6):
                set_aside(rig, rig.pending(f"{{k}} o{number}", 90_000, target="webhook", handler=f"{'ac'[number % 2]}"))
            for scope in ("webhook:b0", "webhook:b1"):
                rig.store.set_scope(scope, Pause(5, OWNER, "", scope), None)
            first = taken(rig, lease, ("webhook", None), limit=4)
            assert len(first) == 4
            keys = {job.key for job in (*first, *taken(rig, lease, ("webhook", None), limit=4))}
            assert keys == {f"{{k}} o{number}" for number in range(6)}
