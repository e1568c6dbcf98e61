"""
Run the jobs of a pull queue: a worker that needs only HTTP, here with Python's standard library.

    python examples/pull_worker.py [QUEUE [COUNT]]

The worker asks the service for due jobs of QUEUE by long polls. It prints each job and acknowledges it, and ends after
COUNT jobs. TICKWHEEL_URL is the address of the service. TICKWHEEL_TOKEN is a token with the right to write, if the
service requires one. A job for the worker is set with `"target": "pull", "handler": QUEUE`. A worker in another
language makes the same three requests: `lease`, `ack` and `nack`.
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
    Send a request to the service, and return its answer; an error status raises HTTPError.
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
    Report to the service how a job ended.

    If the lease has already expired, the service refuses the report, because another worker may have the job.
    """
    try:
        ask(action, fire_id=fire_id, **more)
    except urllib.error.HTTPError as refusal:
        print("too late:", json.load(refusal)["detail"], flush=True)


def main(queue: str = "work", count: str = "-1") -> None:
    """
    Lease jobs, do their work, and acknowledge them.
    """
    left = int(count)
    while left:
        try:
            leases = ask("lease", queue=queue, wait=WAIT_S, seconds=LEASE_S)["leases"]
        except OSError as error:  # no connection, or an error status: HTTPError is an OSError
            print("no answer, asking again:", error, flush=True)
            time.sleep(1)  # a pause, so that the worker does not flood the service with requests
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
