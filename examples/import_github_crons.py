"""
Set a recurring job for every cron line in a JSON file, and print how many were accepted.

    python examples/import_github_crons.py crons.json [sqlite:///crons.db]

The file maps each repository to its workflow files, and each workflow file to a list of {"cron": line}. Crawlers of CI
configurations write such files. The key of a job names the repository, the workflow and the position of the line, so a
second import replaces the jobs and does not duplicate them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tickwheel.calendar import Cron
from tickwheel.scheduler import RecurrenceError, Scheduler, SetRequest


def requests(path: Path) -> Iterator[SetRequest]:
    """
    Read the file, and yield a request for each of its cron lines.
    """
    for repository, workflows in json.loads(path.read_text("utf-8")).items():
        for workflow, entries in workflows.items():
            for number, entry in enumerate(entries):
                yield SetRequest(
                    f"{repository}/{workflow}#{number}", cron=entry["cron"], target="log", handler=repository
                )


def main(path: str, store: str = "memory://") -> int:
    """
    Import *path* into *store* in one call, print the counts, and return the number of refused lines.
    """
    accepted: list[SetRequest] = []
    refused = 0
    for request in requests(Path(path)):
        try:
            Cron.parse(request.cron or "")
        except RecurrenceError as error:
            print(f"{request.key}: {error}", file=sys.stderr)
            refused += 1
        else:
            accepted.append(request)
    scheduler = Scheduler(store)
    try:
        scheduler.set_many(accepted)
        pending = scheduler.stats()["pending"]
    finally:
        scheduler.stop()
    print(f"accepted {len(accepted)}, refused {refused}, pending {pending}")
    return refused


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: {sys.argv[0]} FILE.json [STORE]")
    sys.exit(1 if main(*sys.argv[1:]) else 0)
