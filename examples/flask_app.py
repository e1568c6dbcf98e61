"""
Cancel unpaid orders, in Flask.

    flask --app examples/flask_app.py run

Several workers, such as gunicorn's, may run it: one fires, and another one takes over when it ends.
"""

from __future__ import annotations

import atexit
import os

from flask import Flask, abort, request

from tickwheel.scheduler import Scheduler


def create_app(url: str | None = None) -> Flask:
    """
    Make the application; its scheduler starts with it, and stops with the process.
    """
    app = Flask(__name__)
    scheduler = Scheduler(url or os.environ.get("JOBS", "sqlite:///jobs.db"))
    app.extensions["tickwheel"] = scheduler

    @scheduler.handler("cancel-order")
    def cancel_order(number: int) -> None:
        with app.app_context():  # a handler runs outside of any request
            app.logger.warning("order %s is cancelled", number)

    @app.post("/orders/<int:number>")
    def order(number: int) -> tuple[dict[str, int], int]:
        minutes = request.args.get("minutes", 30.0, float)
        answer = scheduler.set(f"order/{number}", delay=60 * minutes, handler="cancel-order", payload=number)
        assert answer.job is not None
        return {"cancelled_at": answer.job.due_at}, 201

    @app.post("/orders/<int:number>/payment")
    def pay(number: int) -> tuple[str, int]:
        answer = scheduler.cancel(f"order/{number}")
        if answer.outcome != "cancelled":
            abort(409, f"order {number} is {answer.outcome}")
        return "", 204

    scheduler.start(role="auto")
    atexit.register(scheduler.stop)
    return app
