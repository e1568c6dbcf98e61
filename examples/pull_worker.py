"""
Run jobs that a service fires: a worker that needs nothing but HTTP, here with Python's standard library.

    python examples/pull_worker.py [QUEUE [COUNT]]

The worker leases the due jobs of QUEUE, one long poll after another, prints them, and acknowledges them; it ends after
COUNT jobs. TICKWHEEL_URL has the address of the service, and TICKWHEEL_TOKEN its write token, if it needs one. A job
for the worker is set with `"target": "pull", "handler": QUEUE`. A worker in another language makes the same three
requests.
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
    Send a request to the service, and return its answer; a refusal raises HTTPError.
    """
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    request = urllib.request.Request(f"{URL}/v1/pull:{action}", json.dumps(body).encode(), headers)  # noqa: S310  ours
    with urllib.request.urlopen(request, timeout=WAIT_S + 10) as answer:  # noqa: S310  as above
        return json.load(answer)


def work(payload: Any) -> None:
    """
    Do the work of a job.
    """
    if payload == "cannot be done":
        message = f"{payload!r} is not a piece of work"
        raise ValueError(message)
    print("worked on", json.dumps(payload), flush=True)


def end(action: str, fire_id: str, **more: Any) -> None:
    """
    Report how a firing ended; if the report comes too late, another worker has the job.
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
        except OSError as error:  # the service cannot be reached (HTTPError and URLError are OSErrors)
            print("no answer, asking again:", error, flush=True)
            time.sleep(1)  # the service may be restarting, and requests without a pause would keep it busy
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
