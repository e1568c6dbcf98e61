"""
The Flask integration: each application has a scheduler, and handlers run in the application's context.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tickwheel.integrations.flask import Jobs
from tickwheel.scheduler import InvalidJobError, Scheduler

flask = pytest.importorskip("flask", reason="Flask is not installed: pip install flask")
cli = pytest.importorskip("flask.cli", reason="as above")


@pytest.fixture
def jobs():
    """
    Return an object with two registered handlers, which record the application in whose context they run.
    """
    made = Jobs()
    made.seen = []

    @made.handler("sync")
    def sync(payload):
        made.seen.append((flask.current_app.name, payload))

    @made.handler("async")
    async def later(payload, firing):
        made.seen.append((flask.current_app.name, payload, firing.attempt))

    return made


@pytest.fixture
def make_app(jobs, tmp_path):
    """
    Return a function that makes applications, and stop their schedulers at the end.
    """
    made = []

    def make(**config):
        app = flask.Flask(f"app{len(made)}")
        app.config.update({"TICKWHEEL_STORE": f"sqlite:///{tmp_path / app.name}.db", **config})
        jobs.init_app(app)
        made.append(app)
        return app

    yield make
    for app in made:
        app.extensions["tickwheel"].stop()


def test_tasks_have_the_context(jobs, scheduler, manual_clock):
    """
    Sync and async tasks run in the application's context, with each scheduler that the application gets.
    """
    pytest.importorskip("msgspec", reason="msgspec is not installed: pip install 'tickwheel[tasks]'")

    @jobs.task(name="cancel")
    def cancel(number: int) -> None:
        jobs.seen.append((flask.current_app.name, number))

    @jobs.task(name="remind", aliases=["ask"])
    async def remind(number: int) -> None:
        jobs.seen.append((flask.current_app.name, number))

    for taken in ("cancel", "ask", "sync"):
        with pytest.raises(InvalidJobError, match="there is one of that name"):
            jobs.task(name=taken)(lambda: None)
    app = flask.Flask("tasks")
    jobs.init_app(app, scheduler)
    scheduler.set("a", cancel.of(17), delay=5)
    scheduler.set("b", remind.of(number=18), delay=6)
    manual_clock.advance(10)
    assert jobs.seen == [("tasks", 17), ("tasks", 18)]
    jobs.init_app(flask.Flask("other"), Scheduler("memory://"))


def test_handlers_have_the_context(jobs, scheduler, manual_clock):
    """
    Sync and async handlers run in the application's context, even with the scheduler of the pytest plugin's fixture.
    """
    app = flask.Flask("shop")
    jobs.init_app(app, scheduler)
    with app.app_context():
        assert jobs.scheduler is scheduler
        jobs.scheduler.set("a", delay=60, handler="sync", payload=1)
        jobs.scheduler.set("b", delay=60, handler="async", payload=2)
    manual_clock.advance(60)
    assert jobs.seen == [("shop", 1), ("shop", 2, 1)]


def test_a_rule_that_cannot_be_read(jobs, scheduler):
    """
    If a rule from a user is invalid, the answer is a 422 with the field, unless the application defines its own answer.
    """
    wrong = {
        "cron": {"cron": "61 * * * *"},
        "tz": {"cron": "0 9 * * *", "tz": "Europe/Berln"},
        "every": {"every": "soon"},
        "time": {"every": "1d", "time": "25:00"},
        "at": {"at": "tomorrow"},
        "delay": {"delay": "in a while"},
    }
    app = flask.Flask("shop")
    app.testing = True

    @app.post("/rules")
    def set_rule():
        return jobs.scheduler.set("rule", handler="sync", **flask.request.json).outcome.value

    jobs.init_app(app, scheduler)
    client = app.test_client()
    for field, rule in wrong.items():
        answer = client.post("/rules", json=rule)
        assert (answer.status_code, answer.json["field"]) == (422, field)
        assert field in answer.json["detail"]
    assert client.post("/rules", json={"cron": "0 9 * * *"}).status_code == 200
    with pytest.raises(InvalidJobError):
        client.post("/rules", json={"delay": 5, "target": "nowhere"})
    scheduler.stop()

    other = flask.Flask("other")
    other.register_error_handler(ValueError, lambda error: (str(error), 400))
    other.add_url_rule("/rules", view_func=set_rule, methods=["POST"])
    jobs.init_app(other, Scheduler("memory://"))
    assert other.test_client().post("/rules", json={"cron": "61 * * * *"}).status_code == 400


def test_each_application_has_its_own(jobs, make_app):
    """
    Two applications in one process share the handlers, but not the jobs.
    """
    one, other = make_app(), make_app()
    with one.app_context():
        jobs.scheduler.set("a", delay=60, handler="sync")
        assert jobs.scheduler.is_started
    with other.app_context():
        assert jobs.scheduler.get("a") is None


def test_a_client_does_not_fire(make_app):
    """
    With the role "client", the application does not fire jobs. An unknown role is refused.
    """
    app = make_app(TICKWHEEL_ROLE="client")
    assert not app.extensions["tickwheel"].is_started
    with pytest.raises(InvalidJobError, match=r"TICKWHEEL_ROLE.*'boss'.*owner, auto, client"):
        make_app(TICKWHEEL_ROLE="boss")


def test_a_scheduler_of_two_applications(jobs, scheduler):
    """
    Two applications cannot share one scheduler, because a handler runs in the context of one application.
    """
    jobs.init_app(flask.Flask("one"), scheduler)
    with pytest.raises(RuntimeError, match="'two' got the scheduler of another application"):
        jobs.init_app(flask.Flask("two"), scheduler)


def test_without_init_app(jobs):
    """
    If `init_app` was not called, the error says so.

    Outside of an application, Flask's own error is raised.
    """
    with flask.Flask("bare").app_context(), pytest.raises(RuntimeError, match="call init_app"):
        jobs.scheduler.get("a")
    with pytest.raises(RuntimeError, match="application context"):
        jobs.scheduler.get("a")


@pytest.mark.parametrize(
    ("arguments", "environment", "starts"),
    [
        (["routes"], {}, False),
        (["run"], {}, True),
        (["run", "--reload"], {}, False),
        (["run", "--reload"], {"WERKZEUG_RUN_MAIN": "true"}, True),
        (["--debug", "run"], {}, False),
        (["--debug", "run", "--no-reload"], {}, True),
    ],
)
def test_only_a_serving_process_fires(make_app, monkeypatch, arguments, environment, starts):
    """
    In debug mode, the process that only watches the files does not fire jobs, and neither does `flask routes`.
    """
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cli, "run_simple", lambda *_args, **_kwargs: None, raising=False)
    monkeypatch.setattr("werkzeug.serving.run_simple", lambda *_args, **_kwargs: None)
    apps = []

    def create_app():
        apps.append(make_app())
        return apps[-1]

    before = dict(os.environ)
    try:
        cli.FlaskGroup(create_app=create_app, set_debug_flag=True).main(arguments, standalone_mode=False)
    finally:  # undoes changes by the command group
        for name in set(os.environ) - set(before):
            del os.environ[name]
    assert [app.extensions["tickwheel"].is_started for app in apps] == [starts]


@pytest.mark.needs("os.fork")
def test_the_command_fires_until_it_is_stopped(tmp_path):
    """
    `flask tickwheel` fires the jobs that web processes set.

    At SIGTERM it stops with exit code 0.
    """
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    (tmp_path / "shop.py").write_text(
        textwrap.dedent(f"""
            from flask import Flask, current_app
            from tickwheel.integrations.flask import Jobs

            jobs = Jobs()
            app = Flask("shop")
            app.config.update(TICKWHEEL_STORE={url!r}, TICKWHEEL_ROLE="client")

            @jobs.handler("greet")
            def greet(name):
                print(current_app.name, "greets", name, flush=True)

            jobs.init_app(app)
        """)
    )
    command = [sys.executable, "-m", "flask", "--app", "shop", "tickwheel"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout.readline().startswith("tickwheel fires sqlite:///")
            client = Scheduler(url)
            client.set("a", delay=0, handler="greet", payload="ada")
            client.stop()
            assert worker.stdout.readline() == "shop greets ada\n"
            worker.send_signal(signal.SIGTERM)
            assert (worker.stdout.readline(), worker.wait(60)) == ("stopped\n", 0)
        finally:
            worker.kill()
