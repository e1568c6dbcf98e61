"""
The Django integration: the tests of the example and the tests of a project.

Both run on a SQLite file and on PostgreSQL, each in a separate process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SHOP = HERE.parents[1] / "examples" / "django_shop"
CHECKS = 24
"""The number of tests in `django_checks`."""
TASK_CHECKS = 12
"""The number of tests in `django_task_checks`."""


@pytest.fixture
def manage(tmp_path):
    """
    Return a function that runs a command of the example's `manage.py`, with separate tables for this test.
    """

    def run(*arguments, **environment):
        done = subprocess.run(
            command(*arguments),
            env=of(tmp_path, **environment),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run


def command(*arguments):
    """
    Return the command line for a command of `manage.py`.
    """
    return [sys.executable, "-W", "error", str(SHOP / "manage.py"), *arguments]


def of(folder, **environment):
    """
    Return the environment variables of a project whose files are in *folder*.

    The folder of this test file is on Python's path.
    """
    return {
        **os.environ,
        "SHOP": str(folder),
        "PYTHONPATH": os.pathsep.join([str(SHOP), str(HERE), str(folder), os.environ.get("PYTHONPATH", "")]),
        **environment,
    }


@pytest.mark.parametrize("place", ["memory", "file", "postgresql"])
def test_the_tests_of_the_example(request, manage, tmp_path, place):
    """
    The example's tests pass on each database, and no migration is missing.
    """
    database = on_sqlite(tmp_path)
    if place == "memory":
        del database["TEST"]
    if place == "postgresql":
        database = on_postgres(request.getfixturevalue("postgres_url"))
    write_settings(tmp_path, database)
    assert "Ran 1 test" in manage("test", "shop", "--settings", "check_settings").stderr
    manage("makemigrations", "--check", "--settings", "check_settings")


def on_sqlite(folder):
    """
    Return the settings of a SQLite database in *folder*.

    Django's tests use a separate file there.
    """
    test = {"NAME": str(folder / "test.db")}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "unused.db"), "TEST": test}


def on_postgres(url):
    """
    Return the settings of a PostgreSQL database on the server of *url*.
    """
    parts = pytest.importorskip("psycopg.conninfo").conninfo_to_dict(url)
    names = {"NAME": "dbname", "HOST": "host", "USER": "user", "PASSWORD": "password", "PORT": "port"}
    found = {name: parts.get(option, "") for name, option in names.items()}
    return {"ENGINE": "django.db.backends.postgresql", **found}


def write_settings(folder, database, text=""):
    """
    Write the module `check_settings`: the example's settings with another *database*, and then *text*.
    """
    lines = f"from settings import *\nDATABASES = {{'default': {database!r}}}\n{text}"
    (folder / "check_settings.py").write_text(lines)


@pytest.mark.needs("os.fork")
def test_the_example(manage, tmp_path):
    """
    `manage.py tickwheel` fires the jobs that a web process sets, until SIGTERM.
    """
    manage("migrate")
    order = "from django.test import Client; print(Client(headers={'host': 'localhost'}).post('/orders/5?minutes=0'))"
    state = "from shop.models import Order; print(*Order.objects.all())"
    with subprocess.Popen(
        command("tickwheel"), env=of(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as worker:
        try:
            assert worker.stdout.readline().startswith("tickwheel fires sqlite:///")
            assert "201" in manage("shell", "-c", order).stdout
            for _ in range(20):
                shown = manage("shell", "-c", state).stdout
                if "cancelled" in shown:
                    break
            assert "order 5 is cancelled" in shown
            worker.send_signal(signal.SIGTERM)
            assert (worker.stdout.readline(), worker.wait(60)) == ("stopped\n", 0)
        finally:
            worker.kill()


@pytest.fixture
def role(postgres_url):
    """
    Return a role of the PostgreSQL server. The name of this role has to be escaped.
    """
    psycopg = pytest.importorskip("psycopg")
    name = r"the shop's \ own"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        quoted = psycopg.sql.Identifier(name)
        connection.execute(psycopg.sql.SQL("CREATE ROLE {} SUPERUSER").format(quoted))
        yield name
        connection.execute(psycopg.sql.SQL("DROP ROLE {}").format(quoted))


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_a_project(request, manage, tmp_path, vendor):
    """
    In a Django project, jobs join transactions, the admin lists them, and invalid settings are refused.

    The tests are in `django_checks.py`.
    """
    database = on_sqlite(tmp_path)
    if vendor == "postgresql":
        database = on_postgres(request.getfixturevalue("postgres_url"))
        options = {"application_name": "the shop's own", "options": "-c work_mem=5MB", "pool": False}
        options |= {"assume_role": request.getfixturevalue("role"), "prepare_threshold": 5}
        database |= {"OPTIONS": options}
    write_settings(tmp_path, database)
    done = manage("test", "django_checks", "--settings", "check_settings")
    assert f"Found {CHECKS} test(s)." in done.stdout
    assert "\nOK" in done.stderr


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_a_project_with_tasks(request, manage, tmp_path, vendor):
    """
    The tasks of Django's Tasks framework run as jobs.

    The tests are in `django_task_checks.py`.
    """
    if find_spec("django.tasks") is None and find_spec("django_tasks") is None:
        pytest.skip("there is no Tasks framework: pip install django-tasks, or Django 6")
    database = on_sqlite(tmp_path)
    if vendor == "postgresql":
        database = on_postgres(request.getfixturevalue("postgres_url"))
    backend = {"BACKEND": "tickwheel.integrations.django.TickwheelBackend", "QUEUES": ["default", "mail"]}
    once = backend | {"OPTIONS": {"attempts": 1, "keep_results": "1h"}}
    write_settings(tmp_path, database, f"TASKS = {{'default': {backend!r}, 'once': {once!r}}}\n")
    done = manage("test", "django_task_checks", "--settings", "check_settings")
    assert f"Found {TASK_CHECKS} test(s)." in done.stdout
    assert "\nOK" in done.stderr


def test_the_command_without_a_store(tmp_path):
    """
    If the store cannot be used, `manage.py tickwheel` says so in one line, without a traceback.
    """
    settings = f"from settings import *\nTICKWHEEL = {{'STORE': 'sqlite:///{tmp_path}/gone/jobs.db'}}\n"
    (tmp_path / "gone_settings.py").write_text(settings)
    line = command("tickwheel", "--settings", "gone_settings")
    done = subprocess.run(line, env=of(tmp_path), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: ")
    assert "Traceback" not in done.stderr


def test_the_first_use_inside_a_transaction(tmp_path, manage):
    """
    The first use of the scheduler may be in a transaction that has already written to a SQLite file.
    """
    script = """
        from django.db import transaction
        from shop.models import Order
        from tickwheel.integrations.django import jobs
        with transaction.atomic():
            Order.objects.create(pk=1)
            print(jobs.scheduler.set("a", delay=60, handler="cancel-order").outcome)
        print(jobs.scheduler.get("a").key)
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    manage("migrate")
    assert manage("shell", "-c", "import script").stdout.splitlines()[-2:] == ["created", "a"]
