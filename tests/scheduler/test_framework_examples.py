"""
The examples for web frameworks, on the frameworks.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.realtime


@pytest.fixture
def load(monkeypatch, tmp_path):
    """
    Return what imports an example, whose jobs are in a file of this test.
    """
    monkeypatch.setenv("JOBS", f"sqlite:///{tmp_path / 'jobs.db'}")

    def load_one(name):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load_one


def test_fastapi(load, until):
    """
    An order that nobody pays is cancelled, one that is paid in time is not, and a late payment is refused.
    """
    pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install fastapi")
    testclient = pytest.importorskip("fastapi.testclient", reason="as above")
    example = load("fastapi_app")
    with testclient.TestClient(example.app) as client:
        assert client.post("/orders/17").status_code == 201
        assert client.post("/orders/17/payment").status_code == 204
        assert client.post("/orders/18?minutes=0").json()["cancelled_at"] > 0
        until(lambda: example.cancelled == [18])
        until(lambda: client.post("/orders/18/payment").json() == {"detail": "order 18 is not_found"})
    with pytest.raises(RuntimeError, match="no scheduler yet"):
        assert example.jobs.scheduler.is_started


def test_flask(load, until, caplog):
    """
    As on FastAPI; the handler has the application's context.
    """
    pytest.importorskip("flask", reason="Flask is not installed: pip install flask")
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
