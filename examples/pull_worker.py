"""
Run jobs that a service fires: a worker that needs nothing but HTTP, here with Python's standard library.

    python examples/pull_worker.py [QUEUE [COUNT]]

It leases what is due in QUEUE, one long poll after the other, prints it, and acknowledges; after COUNT firings it ends.
The address of the service is in TICKWHEEL_URL, its write token, if it needs one, in TICKWHEEL_TOKEN. A job for it is
set with `"target": "pull", "handler": QUEUE`. In another language it is the same three requests.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

URL = os.environ.get("TICKWHEEL_URL", "http://127.0.0.1:8765")
TOKEN = os.environ.get("TICKWHEEL_TOKEN")
WAIT_S, LEASE_S = 20, 60


def ask(action: str, **body: Any) -> Any:
    """
    Return what the service answers; a refusal is an HTTPError.
    """
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    request = urllib.request.Request(f"{URL}/v1/pull:{action}", json.dumps(body).encode(), headers)  # noqa: S310  ours
    with urllib.request.urlopen(request, timeout=WAIT_S + 10) as answer:  # noqa: S310  as above
        return json.load(answer)


def work(payload: Any) -> None:
    """
    Do what a job is for.
    """
    if payload == "cannot be done":
        message = f"{payload!r} is not a piece of work"
        raise ValueError(message)
    print("worked on", json.dumps(payload), flush=True)


def end(action: str, fire_id: str, **more: Any) -> None:
    """
    Say how a firing ended; what comes too late is somebody else's by now.
    """
    try:
        ask(action, fire_id=fire_id, **more)
    except urllib.error.HTTPError as refusal:
        print("too late:", json.load(refusal)["detail"], flush=True)


def main(queue: str = "work", count: str = "-1") -> None:
    """
    Lease, work, acknowledge.
    """
    left = int(count)
    while left:
        try:
            leases = ask("lease", queue=queue, wait=WAIT_S, seconds=LEASE_S)["leases"]
        except OSError as error:  # the service is not there: HTTPError and URLError are OSErrors
            print("no answer, asking again:", error, flush=True)
            time.sleep(1)  # it may be restarting; asked at once, it would be busy with refusals
            continue
        for lease in leases:
            left -= 1
            try:
                work(lease["job"]["payload"])
            except ValueError as error:
                end("nack", lease["fire_id"], error=str(error), is_dead=True)
            else:
                end("ack", lease["fire_id"])


if __name__ == "__main__":
    main(*sys.argv[1:])
