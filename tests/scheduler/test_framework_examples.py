"""
The examples for frameworks run with the frameworks of requirements/dev.txt.

A missing framework is an error. The Django example is tested in tests/integrations/test_django.py.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SOLD = "order/2 is rolled back, and its job is None\norder/1 is cancelled, of 1\n"
SOLD_ASYNC = "order/4 is rolled back, and its job is None\norder/3 is cancelled\n"

pytestmark = pytest.mark.realtime
with_greenlet = pytest.mark.skipif(
    sys.version_info >= (3, 15) and importlib.util.find_spec("greenlet") is None,
    reason="greenlet, which SQLAlchemy needs for asyncio, has no wheel for this Python",  # as requirements/dev.in says
)


@pytest.fixture
def load(monkeypatch, tmp_path):
    """
    Return a function that imports an example.

    The example keeps its jobs in a file of this test.
    """
    monkeypatch.setenv("JOBS", f"sqlite:///{tmp_path / 'jobs.db'}")

    def load_one(name):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load_one


def run(*arguments, folder):
    """
    Run Python in a folder, with warnings as errors, and return its output.
    """
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.filterwarnings("ignore:Using `httpx` with")  # Starlette is moving to another client
def test_fastapi(load, until):
    """
    The FastAPI example cancels an order that is not paid in time.

    It keeps a paid order, and refuses a late payment.
    """
    from fastapi.testclient import TestClient  # noqa: PLC0415  it warns when it is imported

    example = load("fastapi_app")
    with TestClient(example.app) as client:
        assert client.post("/orders/17").status_code == 201
        assert client.post("/orders/17/payment").status_code == 204
        assert client.post("/orders/18?minutes=0").json()["cancelled_at"] > 0
        until(lambda: example.cancelled == [18])
        until(lambda: client.post("/orders/18/payment").json() == {"detail": "order 18 is not_found"})
    with pytest.raises(RuntimeError, match="no scheduler yet"):
        assert example.jobs.scheduler.is_started


def test_flask(load, until, caplog):
    """
    The Flask example does the same as the FastAPI example.

    Its handler runs in the application's context.
    """
    app = load("flask_app").create_app()
    client = app.test_client()
    try:
        assert client.post("/orders/17").status_code == 201
        assert client.post("/orders/17/payment").status_code == 204
        assert client.post("/orders/18?minutes=0").status_code == 201
        until(lambda: "order 18 is cancelled" in caplog.text)
        until(lambda: client.post("/orders/18/payment").status_code == 409)
        assert app.extensions["tickwheel"].is_started
    finally:
        app.extensions["tickwheel"].stop()


@with_greenlet
def test_sqlalchemy(tmp_path):
    """
    On SQLite, a Session writes both an order and its job, or neither.

    This holds even if the example runs again on the same file.
    """
    for begin in (1, 2):
        done = run(EXAMPLES / "sqlalchemy_app.py", folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == SOLD.replace("/2", f"/{begin + 1}").replace("/1", f"/{begin}").replace(
            "of 1", f"of {begin}"
        )


@with_greenlet
def test_sqlalchemy_on_postgres(postgres_url, tmp_path):
    """
    On PostgreSQL a Session and an AsyncSession write both an order and its job, or neither.
    """
    done = run(EXAMPLES / "sqlalchemy_app.py", postgres_url, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, SOLD + SOLD_ASYNC, "")


def test_pytest():
    """
    The tests of the pytest example pass under pytest.

    pytest finds the fixtures through the plugin's entry point.
    """
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py", folder=EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
