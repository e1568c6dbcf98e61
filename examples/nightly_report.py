"""
Write a report every night at 2:30 local time, even in the night in which summer time begins.

    python examples/nightly_report.py

The example prints the next three runs. In the first night 2:30 does not exist, so the report is written at 3:00. Then
the example fires these runs on a manual clock, so that three days take a moment.
"""

from __future__ import annotations

from datetime import UTC, datetime
from threading import Semaphore
from zoneinfo import ZoneInfo

from tickwheel.scheduler import Recurrence, Scheduler
from tickwheel.testing import ManualClock

ZONE = ZoneInfo("Europe/Berlin")
SATURDAY_NOON = datetime(2025, 3, 29, 12, tzinfo=ZONE)
A_DAY = 86_400


def main() -> None:
    """
    Set the job, print the next runs, and let three nights pass.
    """
    clock = ManualClock(wall=SATURDAY_NOON.timestamp())
    reported: list[str] = []
    is_reported = Semaphore(0)

    with Scheduler("memory://", clock=clock) as scheduler:

        @scheduler.task(name="report")
        def report() -> None:
            reported.append(datetime.fromtimestamp(clock.wall_ns() / 1e9, ZONE).strftime("%a %H:%M"))
            is_reported.release()

        job = scheduler.set("report", report.of(), cron="30 2 * * *", tz=ZONE.key).job
        assert job.recurrence is not None
        for due_at in Recurrence.from_text(job.recurrence).upcoming("report", job.due_at - 1, 3):
            instant = datetime.fromtimestamp(due_at / 1000, UTC)
            print(f"{instant:%Y-%m-%d %H:%M} UTC is {instant.astimezone(ZONE):%a %H:%M} in Berlin")
        for _ in range(3):
            clock.advance(A_DAY)
            is_reported.acquire()
    print("reported", len(reported), "times")


if __name__ == "__main__":
    main()
