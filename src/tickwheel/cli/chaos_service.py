"""
The service for `tickwheel chaos`: `python -m tickwheel.cli.chaos_service STORE PORT`.

Unlike `tickwheel serve`, this service may send webhooks to this machine, where the target is. After failures, it avoids
the target only briefly, so that a chaos run does not consist mostly of waiting.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from tickwheel import service
from tickwheel.scheduler import AsyncScheduler
from tickwheel.targets.webhook import WebhookTarget

__all__ = ["main"]


def main(store: str, port: int) -> None:
    """
    Serve until SIGTERM, or until standard input ends because the parent has ended.
    """
    threading.Thread(target=_end_with_parent, name="tickwheel-parent", daemon=True).start()
    scheduler = AsyncScheduler(store, targets={"webhook": WebhookTarget(allow=["127.0.0.0/8"], open_s=0.5)})
    options = service.ServiceOptions(port=port)
    service.serve(scheduler, options, lambda address: print(f"page  {address}/", flush=True))  # noqa: T201 its parent reads it


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):  # unbuffered, because the exiting interpreter needs the buffer's lock
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
