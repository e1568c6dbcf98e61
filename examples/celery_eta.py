"""
Enqueue each Celery task at its ETA: tickwheel keeps the task until then, and can move or cancel it.

    celery --workdir examples -A celery_eta worker --pool solo          in one terminal
    python examples/celery_eta.py                                       in another

The environment variable BROKER is the URL of the broker. The default is redis://localhost:6379/0.
"""

from __future__ import annotations

import os
import threading

from celery import Celery

from tickwheel.observe.events import Event, JobSucceeded
from tickwheel.scheduler import Scheduler
from tickwheel.targets import apply_at
from tickwheel.targets.celery import CeleryTarget

app = Celery("celery_eta", broker=os.environ.get("BROKER", "redis://localhost:6379/0"))


@app.task(name="celery_eta.send_mail")
def send_mail(to: str) -> None:
    """
    Send a mail; this Celery task runs in the worker.
    """
    print(f"mail to {to}", flush=True)


def main() -> None:
    """
    Schedule three tasks, move one, cancel another, and wait until the remaining two are enqueued.
    """
    enqueued = threading.Semaphore(0)

    def tell(event: Event) -> None:
        if isinstance(event, JobSucceeded):
            print("enqueued", event.key)
            enqueued.release()

    with Scheduler("memory://", targets={"celery": CeleryTarget(app)}) as scheduler:
        scheduler.subscribe(tell)
        apply_at(scheduler, send_mail, ["ada"], countdown=0.1, key="mail/ada")
        apply_at(scheduler, send_mail, ["bob"], countdown=3600, key="mail/bob")
        apply_at(scheduler, send_mail, ["eve"], countdown=3600, key="mail/eve")
        print("bob is", scheduler.move("mail/bob", delay=0.3).outcome)
        print("eve is", scheduler.cancel("mail/eve").outcome)
        enqueued.acquire()
        enqueued.acquire()


if __name__ == "__main__":
    main()
