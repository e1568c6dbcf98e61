"""
Tests that Django's test runner runs in a project.

`test_django.py` runs them on several databases.
"""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime
from functools import partial
from unittest import skipUnless

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, SimpleTestCase, TransactionTestCase, override_settings
from django.test.testcases import DatabaseOperationForbidden
from django.urls import path
from shop.models import Order

from tickwheel.integrations.django import jobs
from tickwheel.scheduler import InvalidJobError, Scheduler, TransactionError
from tickwheel.testing import InlineScheduler, ManualClock

LATER = {"delay": 3600, "handler": "shop.jobs.cancel_order"}
ADMIN = "/admin/tickwheel/job/"


def tearDownModule() -> None:
    """
    Close the scheduler's database, because Django drops it next.
    """
    jobs.close()


class Jobs(TransactionTestCase):
    """
    The scheduler in a Django project.
    """

    def setUp(self) -> None:
        """
        Start each test without jobs.
        """
        jobs.scheduler.drain()

    def test_a_job_joins_the_transaction(self) -> None:
        """
        If a job is set in a transaction, it exists only if the transaction commits, even without the argument `conn`.
        """
        with transaction.atomic():
            Order.objects.create(pk=1)
            assert jobs.scheduler.set("a", **LATER).outcome == "created"
            assert jobs.scheduler.get("a") is None  # without `conn` this reads from outside the transaction
        assert jobs.scheduler.get("a") is not None
        with transaction.atomic():
            assert jobs.scheduler.cancel("a").outcome == "cancelled"
            assert jobs.scheduler.set_many([]) == []
            transaction.set_rollback(True)
        assert jobs.scheduler.get("a") is not None

    def test_every_verb_joins(self) -> None:
        """
        `move`, `run_now` and `replay` also join the transaction.
        """
        jobs.scheduler.set("a", **LATER)
        with transaction.atomic():
            assert jobs.scheduler.move("a", delay=7200).outcome == "moved"
            assert jobs.scheduler.run_now("a").outcome == "moved"
            assert jobs.scheduler.replay("a").outcome == "not_found"
            transaction.set_rollback(True)
        assert jobs.scheduler.get("a").generation == jobs.scheduler.list().jobs[0].generation
        assert jobs.scheduler.list(due_from=jobs.scheduler.get("a").due_at / 1000 + 1).jobs == ()

    def test_a_verb_that_cannot_join(self) -> None:
        """
        If a verb cannot join a transaction, a call inside a transaction is refused, and the error has a remedy.
        """
        scheduler = jobs.scheduler
        scheduler.set("a", every=3600, handler="shop.jobs.cancel_order")
        before = scheduler.get("a")
        outside = {
            "skip": partial(scheduler.skip, "a"),
            "change": partial(scheduler.change, "a", payload=2),
            "backfill": partial(scheduler.backfill, "a", time.time() - 7200, time.time()),
            "bulk": partial(scheduler.bulk, "pause", "a"),
            "drain": partial(scheduler.drain, "a"),
            "pause_scope": partial(scheduler.pause_scope, "handler:shop.jobs.cancel_order"),
            "resume_scope": partial(scheduler.resume_scope, "handler:shop.jobs.cancel_order"),
        }
        for verb, call in outside.items():
            refused = pytest.raises(TransactionError, match=rf"{verb}\(\), .*transaction\.on_commit\(\)")
            with refused, transaction.atomic():
                call()
        assert (scheduler.list().jobs, scheduler.paused_scopes()) == ((before,), [])
        with transaction.atomic():
            transaction.on_commit(outside["skip"])
        assert scheduler.get("a").due_at > before.due_at

    def test_a_pause_that_joins_names_this_process(self) -> None:
        """
        A pause inside a transaction has the same author (`by`) as a pause outside.
        """
        jobs.scheduler.set("a", **LATER)
        jobs.scheduler.set("b", **LATER)
        jobs.scheduler.pause("a")
        with transaction.atomic():
            jobs.scheduler.pause("b")
        assert jobs.scheduler.get("b").pause.by == jobs.scheduler.get("a").pause.by != ""

    def test_a_transaction_without_autocommit(self) -> None:
        """
        A job joins a transaction without autocommit in the same way as a transaction of `atomic()`.
        """
        transaction.set_autocommit(False)
        try:
            jobs.scheduler.set("a", **LATER)
            jobs.scheduler.set("b", conn=connection, **LATER)
            with pytest.raises(TransactionError, match="skip"):
                jobs.scheduler.skip("a")
            transaction.rollback()
            jobs.scheduler.set("c", **LATER)
            transaction.commit()
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)
        assert [job.key for job in jobs.scheduler.list().jobs] == ["c"]

    def test_on_commit(self) -> None:
        """
        A job that is set in `on_commit` is outside the transaction.
        """
        with transaction.atomic():
            transaction.on_commit(partial(jobs.scheduler.set, "a", **LATER))
            assert jobs.scheduler.get("a") is None
        assert jobs.scheduler.get("a") is not None

    def test_another_scheduler_for_a_test(self) -> None:
        """
        In a test, `using` replaces the scheduler by another one, which gets the handlers.
        """
        Order.objects.create(pk=1)
        clock = ManualClock()
        with InlineScheduler(clock) as inline, jobs.using(inline):
            assert jobs.scheduler is inline
            with transaction.atomic():
                jobs.scheduler.set("a", payload={"number": 1}, **LATER)
            clock.advance(3600)
        assert Order.objects.get(pk=1).state == "cancelled"
        assert jobs.scheduler is not inline

    def test_one_scheduler_for_several_blocks(self) -> None:
        """
        The same scheduler may be passed to `using` several times, even in nested blocks.
        """
        with InlineScheduler(ManualClock()) as inline:
            for _ in range(2):
                with jobs.using(inline), jobs.using(inline):
                    assert jobs.scheduler.has_handler("shop.jobs.cancel_order")

    def test_handlers_close_old_connections(self) -> None:
        """
        Before and after each sync or async handler, database connections of their maximum age are closed.
        """
        clock = ManualClock()
        seen = []
        handlers = type(jobs)()

        @handlers.handler("sync")
        def sync(_payload: object) -> None:
            seen.append(connection.connection)
            connection.ensure_connection()

        @handlers.handler("async")
        async def later(_payload: object) -> None:
            seen.append("async")

        with InlineScheduler(clock) as inline, handlers.using(inline):
            connection.ensure_connection()
            connection.close_at = 0
            handlers.scheduler.set("a", delay=60, handler="sync")
            handlers.scheduler.set("b", delay=60, handler="async")
            clock.advance(60)
        assert seen == [None, "async"]

    def test_handlers_leave_transactions_alone(self) -> None:
        """
        If a test moves the clock inside a transaction, the database connection stays open, whatever its age.
        """
        clock = ManualClock()
        handlers = type(jobs)()
        states = []

        @handlers.handler("sync")
        def sync(_payload: object) -> None:
            states.append(Order.objects.get(pk=1).state)

        @handlers.handler("async")
        async def later(_payload: object) -> None:
            states.append("async")

        def run() -> None:
            Order.objects.create(pk=1)
            inner, connection.close_at = connection.connection, 0
            handlers.scheduler.set("a", delay=60, handler="sync")
            handlers.scheduler.set("b", delay=60, handler="async")
            clock.advance(60)
            assert connection.connection is inner

        with InlineScheduler(clock) as inline, handlers.using(inline):
            with transaction.atomic():
                run()
                transaction.set_rollback(True)
            connection.close()
            transaction.set_autocommit(False)
            try:
                run()
            finally:
                transaction.rollback()
                transaction.set_autocommit(True)
        assert states == ["open", "async"] * 2
        assert not Order.objects.exists()

    def test_jobs_in_another_store(self) -> None:
        """
        With the setting `STORE`, jobs are in another store: a write takes effect at once and joins no transaction.
        """
        other = type(jobs)()
        with override_settings(TICKWHEEL={"STORE": "http://127.0.0.1:8765"}):
            assert "http://127.0.0.1:8765" in repr(other.scheduler)
            other.close()
        with override_settings(TICKWHEEL={"STORE": "memory://", "OPTIONS": {"workers": 3}}):
            with transaction.atomic():
                other.scheduler.set("a", **LATER)
                assert other.scheduler.get("a") is not None
            other.close()

    def test_invalid_settings(self) -> None:
        """
        An invalid setting is refused, and the error names the setting and the reason.
        """
        wrong = {
            "has 'STORES': known are DATABASE, OPTIONS, QUERY, STORE, TARGETS": {"STORES": "memory://"},
            "has 'QUERY' beside 'STORE'": {"STORE": "memory://", "QUERY": {"shards": 4}},
            "is in memory, where no other process finds the jobs": {"DATABASE": ":memory:"},
            "'file:jobs.db', which the URL of a store cannot name": {"DATABASE": "file:jobs.db"},
            r"'why\?.db', which the URL of a store cannot name": {"DATABASE": "why?.db"},
        }
        for name in (":memory:", "file:jobs.db", "why?.db"):
            file = {"ENGINE": "django.db.backends.sqlite3", "NAME": name}
            connections.settings[name] = {**connections.settings["default"], **file}
            self.addCleanup(connections.settings.pop, name)
            self.addCleanup(connections.__delitem__, name)
        for message, settings in wrong.items():
            with override_settings(TICKWHEEL=settings), pytest.raises(ImproperlyConfigured, match=message):
                type(jobs)().scheduler.get("a")
        with override_settings(TICKWHEEL={"OPTIONS": {"workers": 0}}), pytest.raises(InvalidJobError):
            type(jobs)().scheduler.get("a")

    def test_options_of_the_url(self) -> None:
        """
        The setting `QUERY` sets the options that are usually part of a store's URL.
        """
        other = type(jobs)()
        query = {"synchronous": "normal"} if connection.vendor == "sqlite" else {"pooler": "transaction"}
        with override_settings(TICKWHEEL={"QUERY": query}):
            stats = other.scheduler.stats()
            other.close()
        assert "pooler=transaction" in stats["store"] or stats["loss_window"] is not None

    @skipUnless(connection.vendor == "postgresql", "a file has no owner that Django knows")
    def test_it_connects_as_django_does(self) -> None:
        """
        The tables of the jobs belong to the role that the option `assume_role` names, like the tables of the models.
        """
        jobs.scheduler.get("a")
        with connection.cursor() as cursor:
            cursor.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE tablename ~ 'tickwheel|shop'")
            assert [owner for (owner,) in cursor.fetchall()] == [connection.settings_dict["OPTIONS"]["assume_role"]]

    def test_dumpdata(self) -> None:
        """
        `dumpdata` succeeds, although the model of jobs in the admin has no table.
        """
        call_command("dumpdata", stdout=io.StringIO())


class WithoutDatabase(SimpleTestCase):
    """
    A test that may not use the database.
    """

    def test_nothing_is_written(self) -> None:
        """
        In a test without a database, Django refuses writes of jobs as it refuses queries.
        """
        for write in (partial(jobs.scheduler.set, "a", **LATER), partial(jobs.scheduler.skip, "a")):
            with pytest.raises(DatabaseOperationForbidden):
                write()


class Admin(TransactionTestCase):
    """
    The jobs in Django's admin.
    """

    def setUp(self) -> None:
        """
        Start each test with two pending jobs, and log in as a superuser.
        """
        jobs.scheduler.drain()
        jobs.scheduler.set("order/1", payload={"<b>": 1}, **LATER)
        jobs.scheduler.set("other/1", **LATER)
        self.client.force_login(User.objects.create_superuser("root"))

    def test_the_list(self) -> None:
        """
        The list finds jobs by prefix and state, and shows payloads as text.
        """
        shown = self.client.get(ADMIN, {"q": "order/", "state": "pending"}).content.decode()
        assert "order/1" in shown
        assert "other/1" not in shown
        assert "{&quot;&lt;b&gt;&quot;:1}" in shown
        assert "No jobs here" in self.client.get(ADMIN, {"state": "dead"}).content.decode()
        assert "State is" in self.client.get(ADMIN, {"state": "asleep"}).content.decode()
        assert ADMIN in self.client.get("/admin/").content.decode()

    def test_pages(self) -> None:
        """
        If there are more than a hundred jobs, the list has a second page.
        """
        with Scheduler("memory://") as many, jobs.using(many):
            for number in range(150):
                many.set(f"many/{number:03}", **LATER)
            first = self.client.get(ADMIN, {"q": "many/"})
            second = self.client.get(f"{ADMIN}?{first.context['next']}")
            assert [len(page.context["rows"]) for page in (first, second)] == [100, 50]
            assert second.context["next"] is None

    def test_acts(self) -> None:
        """
        The chosen action is applied to each selected job, and the admin's log records it.
        """
        done = self.client.post(ADMIN, {"verb": "cancel", "key": ["order/1", "gone"]}, follow=True).content.decode()
        assert "Cancelled: order/1" in done
        assert "Not found: gone" in done
        assert jobs.scheduler.get("order/1") is None
        assert [entry.object_id for entry in LogEntry.objects.order_by("id")] == ["order/1", "gone"]

    def test_a_rule_in_words(self) -> None:
        """
        A recurrence rule is shown in words and as text, and times are in the time zone of the settings.
        """
        jobs.scheduler.set("report", cron="0 9 * * MON-FRI", tz="UTC", **LATER | {"delay": None})
        year = datetime.now(UTC).year + 20
        jobs.scheduler.set("beat", every="3d", time="02:00", until=f"{year}-01-01T00:00Z", **LATER | {"delay": None})
        with override_settings(TIME_ZONE="Asia/Tokyo"):
            shown = self.client.get(ADMIN).content.decode()
        assert "at 09:00 on Monday through Friday (0 9 * * MON-FRI) in UTC" in shown
        assert "18:00:00 JST" in shown
        assert f"every 3d at 02:00 in UTC, until {year}-01-01 09:00:00 JST" in shown
        assert "anchor" not in shown

    def test_the_history(self) -> None:
        """
        Users who may view jobs get a link from each key to the history of its job, even if the job no longer exists.
        """
        key = "a/b?c=<d>&é"
        with InlineScheduler(ManualClock()) as inline, jobs.using(inline):
            inline.set(key, every=60, handler="shop.jobs.cancel_order", payload={"number": 1})
            inline.clock.advance(60)
            link = self.client.get(ADMIN).context["rows"][0]["history"]
            shown = self.client.get(f"{ADMIN}history/?{link}").content.decode()
            assert "succeeded" in shown
            assert "a/b?c=&lt;d&gt;&amp;é" in shown
            assert "every 60 s" in shown
            assert f"history/?{link}" in self.client.get(ADMIN).content.decode()
            inline.cancel(key)
            assert "No job has this key now" in self.client.get(f"{ADMIN}history/?{link}").content.decode()
            many = [each["record"] for each in self.client.get(f"{ADMIN}history/?{link}").context["records"]]
            older = self.client.get(f"{ADMIN}history/", {"key": key, "before": many[0].number})
            assert [each["record"] for each in older.context["records"]] == many[1:]
            assert "may not be empty" in self.client.get(f"{ADMIN}history/").content.decode()
        self.client.force_login(User.objects.create_user("guest", is_staff=True))
        assert self.client.get(f"{ADMIN}history/?{link}").status_code == 403

    def test_permissions(self) -> None:
        """
        Without the permission to view jobs, the page is not shown.

        With only this permission, jobs cannot be changed.
        """
        user = User.objects.create_user("guest", is_staff=True)
        self.client.force_login(user)
        assert self.client.get(ADMIN).status_code == 403
        user.user_permissions.add(Permission.objects.get(codename="view_job"))
        shown = self.client.get(ADMIN)
        assert shown.context["verbs"] == []
        assert self.client.post(ADMIN, {"verb": "cancel", "key": "order/1"}).status_code == 403
        assert jobs.scheduler.get("order/1") is not None


class Rules(TransactionTestCase):
    """
    Recurrence rules and times that come from a user's request.
    """

    def test_invalid_rules_and_times(self) -> None:
        """
        If a rule or time is invalid, the answer is a 422 with the name of the field.
        """
        wrong = {
            "cron": {"cron": "61 * * * *"},
            "tz": {"cron": "0 9 * * *", "tz": "Europe/Berln"},
            "every": {"every": "soon"},
            "time": {"every": "1d", "time": "25:00"},
            "at": {"at": "tomorrow"},
            "delay": {"delay": "in a while"},
        }
        with InlineScheduler(ManualClock()) as inline, jobs.using(inline), override_settings(ROOT_URLCONF=__name__):
            for field, fields in wrong.items():
                answer = self.client.post("/rules", fields)
                assert (answer.status_code, answer.json()["field"]) == (422, field)
                assert field in answer.json()["detail"]
            assert self.client.post("/rules", {"cron": "0 9 * * *"}).status_code == 200
            with pytest.raises(InvalidJobError):
                self.client.post("/rules", {"delay": "5s", "target": "nowhere"})

    def test_a_view_that_is_async(self) -> None:
        """
        If a rule or time is invalid, the answer of an async view is also a 422.
        """
        with InlineScheduler(ManualClock()) as inline, jobs.using(inline), override_settings(ROOT_URLCONF=__name__):
            assert async_to_sync(AsyncClient().post)("/later", {"every": "soon"}).status_code == 422


def set_rule(request: HttpRequest) -> HttpResponse:
    """
    Set a job with the values from the request.
    """
    fields = {"handler": "shop.jobs.cancel_order", **request.POST.dict()}
    return HttpResponse(jobs.scheduler.set("rule", **fields).outcome)


async def set_rule_later(request: HttpRequest) -> HttpResponse:
    """
    Set a job from an async view, with the values from the request.
    """
    return await sync_to_async(set_rule)(request)


urlpatterns = [path("rules", set_rule), path("later", set_rule_later)]
