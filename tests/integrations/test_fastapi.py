"""
The FastAPI and Starlette integration.

Each start of the application makes a scheduler. A route gets this scheduler as a FastAPI dependency.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from tickwheel.integrations.fastapi import Jobs
from tickwheel.scheduler import AsyncScheduler, InvalidJobError, Scheduler, StoreInUseError

fastapi = pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install fastapi")
testclient = pytest.importorskip("fastapi.testclient", reason="as above")
applications = pytest.importorskip("starlette.applications", reason="as above")
responses = pytest.importorskip("starlette.responses", reason="as above")
routing = pytest.importorskip("starlette.routing", reason="as above")

PATIENCE_S = 20.0


def an_app(jobs, lifespan):
    """
    Return an application with a route that sets a job which is due now.
    """
    app = fastapi.FastAPI(lifespan=lifespan)

    @app.post("/greetings/{name}")
    async def greet(name: str, scheduler=fastapi.Depends(jobs)) -> str:  # noqa: B008  the name is a local one
        return (await scheduler.set(name, delay=0, handler="greet", payload=name)).outcome

    return app


def with_handler(jobs):
    """
    Register a handler. Return a list of its calls, and an event that each call sets.
    """
    greeted, called = [], threading.Event()

    @jobs.handler("greet")
    async def greet(name):
        greeted.append(name)
        called.set()

    return greeted, called


def test_the_application_can_start_again(tmp_path):
    """
    Each start of the application makes a new scheduler with the handlers.

    When the application ends, this scheduler is stopped.
    """
    jobs = Jobs(f"sqlite:///{tmp_path / 'jobs.db'}")
    greeted, called = with_handler(jobs)
    app = an_app(jobs, jobs.lifespan)
    schedulers = set()
    for name in ("ada", "bob"):
        called.clear()
        with testclient.TestClient(app) as client:
            assert client.post(f"/greetings/{name}").json() == "created"
            assert called.wait(PATIENCE_S)
            schedulers.add(jobs.scheduler)
    assert greeted == ["ada", "bob"]
    assert [each.is_started for each in schedulers] == [False, False]


def test_a_request_without_the_lifespan_is_refused():
    """
    If the application does not use the lifespan, a request gets an error that names the lifespan.
    """
    jobs = Jobs("memory://")
    client = testclient.TestClient(an_app(jobs, None))
    with pytest.raises(RuntimeError, match=r"pass lifespan=jobs\.lifespan"):
        client.post("/greetings/ada")


def test_a_dependency_is_overridden():
    """
    With `dependency_overrides`, FastAPI can give every request another scheduler than the application's own.
    """
    jobs = Jobs("memory://")
    app = an_app(jobs, jobs.lifespan)
    scheduler = AsyncScheduler("memory://")
    app.dependency_overrides[jobs] = lambda: scheduler
    with testclient.TestClient(app) as client:
        assert client.post("/greetings/ada").json() == "created"
        assert client.post("/greetings/ada").json() == "replaced"
        assert client.portal.call(jobs.scheduler.get, "ada") is None
        client.portal.call(scheduler.stop)
    app.dependency_overrides.clear()


def test_a_lifespan_of_your_own():
    """
    A lifespan of the user can start and stop the scheduler with `running`.

    If two lifespans run at the same time, the second is refused.
    """
    jobs = Jobs("memory://")
    _, called = with_handler(jobs)

    @asynccontextmanager
    async def lifespan(_app):
        async with jobs.running() as scheduler:
            assert scheduler is jobs.scheduler
            with pytest.raises(RuntimeError, match="run already"):
                async with jobs.running():
                    pass
            yield

    with testclient.TestClient(an_app(jobs, lifespan)) as client:
        client.post("/greetings/ada")
        assert called.wait(PATIENCE_S)


def test_starlette():
    """
    In Starlette, a request finds the scheduler in its state.
    """
    jobs = Jobs("memory://")
    _, called = with_handler(jobs)

    async def greet(request):
        await request.state.scheduler.set("a", delay=0, handler="greet", payload="ada")
        return responses.PlainTextResponse("soon")

    app = applications.Starlette(routes=[routing.Route("/", greet)], lifespan=jobs.lifespan)
    with testclient.TestClient(app) as client:
        assert client.get("/").text == "soon"
        assert called.wait(PATIENCE_S)


def test_a_start_that_fails(tmp_path):
    """
    If the scheduler cannot start, the application does not start either.

    It can start after the cause is removed.
    """
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    jobs = Jobs(url, role="owner")
    app = an_app(jobs, jobs.lifespan)
    with Scheduler(url), pytest.raises(StoreInUseError), testclient.TestClient(app):
        pass
    with testclient.TestClient(app):
        assert jobs.scheduler.is_started


def test_one_handler_a_name():
    """
    If two handlers have the same name, the definition of the second is refused.
    """
    jobs = Jobs("memory://")
    with_handler(jobs)
    with pytest.raises(InvalidJobError, match="there is one of that name"):
        with_handler(jobs)
    with pytest.raises(InvalidJobError, match="it is a task, which needs no handler"):
        jobs.handler("cancel")(jobs.task(name="cancel-order")(print_name))


def print_name(name: str) -> None: ...


def test_a_test_of_the_application_moves_the_clock(async_scheduler, manual_clock):
    """
    In a test, the application uses the test's scheduler, and its tasks run when the test moves the clock.
    """
    jobs, seen = Jobs("memory://"), []

    @jobs.task(name="expire")
    async def expire(number: int) -> None:
        seen.append((number, asyncio.get_running_loop()))

    app = fastapi.FastAPI(lifespan=jobs.lifespan)

    @app.post("/orders/{number}")
    async def order(number: int, scheduler=fastapi.Depends(jobs)) -> str:  # noqa: B008  the name is a local one
        seen.append(asyncio.get_running_loop())
        return (await scheduler.set(f"order/{number}", expire.of(number), delay="30m")).outcome

    for number in (17, 18):  # the application starts twice
        seen.clear()
        with jobs.using(async_scheduler), testclient.TestClient(app) as client:
            assert client.post(f"/orders/{number}").json() == "created"
            async_scheduler.assert_scheduled(expire, f"order/{number}", delay="30m")
            manual_clock.advance(1799)
            assert len(seen) == 1
            manual_clock.advance(1)
        assert seen[1:] == [(number, seen[0])]
    with testclient.TestClient(app):
        assert jobs.scheduler is not async_scheduler


RULES = {
    "cron": {"cron": "61 * * * *"},
    "tz": {"cron": "0 9 * * *", "tz": "Europe/Berln"},
    "every": {"every": "soon"},
    "time": {"every": "1d", "time": "25:00"},
    "at": {"at": "tomorrow"},
    "delay": {"delay": "in a while"},
}
"""Recurrence rules and times from a user, by the name of the field that is invalid."""


def refusals(client):
    """
    Send each of `RULES` to the application.

    Return a set of pairs: the status of an answer, and whether the answer names the invalid field.
    """
    answers = {field: client.post("/rules", json=rule) for field, rule in RULES.items()}
    assert all(field in answer.json()["detail"] for field, answer in answers.items())
    return {(answer.status_code, answer.json()["field"] == field) for field, answer in answers.items()}


class Opaque:
    """
    A wrapper around an application, which gives no access to the application inside.
    """

    def __init__(self, inner):
        self._inner = inner

    async def __call__(self, *arguments):
        await self._inner(*arguments)


@pytest.mark.parametrize("is_own", [False, True], ids=["lifespan", "running"])
@pytest.mark.parametrize("middleware", [None, Opaque])
def test_a_rule_that_cannot_be_read(is_own, middleware):
    """
    If a rule from a user is invalid, the answer is a 422. Any other refused value counts as an error in the program.
    """
    jobs = Jobs("memory://")
    with_handler(jobs)

    @asynccontextmanager
    async def lifespan(app):
        async with jobs.running(app):
            yield

    app = fastapi.FastAPI(lifespan=lifespan if is_own else jobs.lifespan)
    if middleware is not None:
        app.add_middleware(middleware)

    @app.post("/rules")
    async def set_rule(rule: dict, scheduler=fastapi.Depends(jobs)) -> str:  # noqa: B008  the name is a local one
        return (await scheduler.set("rule", handler="greet", **rule)).outcome

    for _ in range(2):
        with testclient.TestClient(app) as client:
            assert refusals(client) == {(422, True)}
            assert client.post("/rules", json={"cron": "0 9 * * *"}).status_code == 200
            with pytest.raises(InvalidJobError):
                client.post("/rules", json={"delay": 5, "target": "nowhere"})


def test_a_rule_that_cannot_be_read_in_starlette():
    """
    If a rule from a user is invalid, the answer in Starlette is also a 422.

    An application may define its own answer.
    """
    jobs = Jobs("memory://")
    with_handler(jobs)

    async def set_rule(request):
        rule = await request.json()
        return responses.PlainTextResponse((await request.state.scheduler.set("rule", handler="greet", **rule)).outcome)

    async def own(_request, error):
        return responses.PlainTextResponse(str(error), 400)

    routes = [routing.Route("/rules", set_rule, methods=["POST"])]
    with testclient.TestClient(applications.Starlette(routes=routes, lifespan=jobs.lifespan)) as client:
        assert refusals(client) == {(422, True)}
    app = applications.Starlette(routes=routes, lifespan=jobs.lifespan, exception_handlers={ValueError: own})
    with testclient.TestClient(app) as client:
        assert client.post("/rules", json={"cron": "61 * * * *"}).status_code == 400
