"""
Cancel unpaid orders, in Flask.

    flask --app examples/flask_app.py run

Several worker processes, such as those of gunicorn, may run the application. Only one of them fires jobs. When it ends,
another one takes over.
"""

from __future__ import annotations

import os

from flask import Blueprint, Flask, abort, current_app, request

from tickwheel.integrations.flask import Jobs

jobs = Jobs()
orders = Blueprint("orders", __name__, url_prefix="/orders")


@jobs.task(name="cancel-order")
def cancel_order(number: int) -> None:
    """
    Cancel an order that was not paid in time.
    """
    current_app.logger.warning("order %s is cancelled", number)


@orders.post("/<int:number>")
def order(number: int) -> tuple[dict[str, int], int]:
    """
    Accept an order, and set the job that cancels it unless it is paid in time.
    """
    minutes = request.args.get("minutes", 30.0, float)
    answer = jobs.scheduler.set(f"order/{number}", cancel_order.of(number), delay=60 * minutes)
    return {"cancelled_at": answer.job.due_at}, 201


@orders.post("/<int:number>/payment")
def pay(number: int) -> tuple[str, int]:
    """
    Accept a payment, unless the order is already cancelled.
    """
    answer = jobs.scheduler.cancel(f"order/{number}")
    if answer.outcome != "cancelled":
        abort(409, f"order {number} is {answer.outcome}")
    return "", 204


def create_app() -> Flask:
    """
    Make the application.
    """
    app = Flask(__name__)
    app.config["TICKWHEEL_STORE"] = os.environ.get("JOBS", "sqlite:///jobs.db")
    app.register_blueprint(orders)
    jobs.init_app(app)
    return app
