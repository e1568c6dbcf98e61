"""
Validated requests of pull workers: lease, acknowledge, refuse, release, extend.
"""

from __future__ import annotations

from concurrent.futures import Future

from tickwheel import futures
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import Progress
from tickwheel.targets import DeadLetter, Retry, Snooze
from tickwheel.targets.contract import GIVE_BACK
from tickwheel.targets.pull import JobLease, PullTarget
from tickwheel.typing import Duration

__all__ = ["LEASES_MAX", "LEASE_MAX_S", "LEASE_MIN_S", "WAIT_MAX_S", "Pulls", "check_lease", "check_seconds"]

LEASES_MAX = 1_000
WAIT_MAX_S = 300.0
"""Maximum wait of a long poll. Proxies drop connections that are silent for longer."""
LEASE_MIN_S, LEASE_MAX_S = 0.1, 43_200.0


class Pulls:
    def __init__(self, target: PullTarget) -> None:
        self._target = target

    def lease(self, queue: str, limit: int, wait: Duration, seconds: Duration) -> Future[list[JobLease]]:
        return self._target.lease(*check_lease(queue, limit, wait, seconds))

    def abandon(self, found: Future[list[JobLease]]) -> None:
        """
        Release all firings that *found* has or will have, because the worker has left. A release uses no attempt.
        """
        if not found.cancel():
            found.add_done_callback(self._give_back)

    def _give_back(self, found: Future[list[JobLease]]) -> None:
        for lease in found.result():
            self._target.settle(lease.fire_id, GIVE_BACK)

    def ack(self, fire_id: str) -> Future[None]:
        return self._target.settle(fire_id, None)

    def nack(self, fire_id: str, delay: Duration | None, error: str | None, *, is_dead: bool) -> Future[None]:
        reason = check_error(error)
        after = check_delay(delay, is_dead=is_dead)
        return self._target.settle(fire_id, DeadLetter(reason) if is_dead else Retry(after, reason))

    def release(self, fire_id: str, delay: Duration | None) -> Future[None]:
        wait_s = check_delay(delay, is_dead=False)
        return self._target.settle(fire_id, Snooze(wait_s) if wait_s else GIVE_BACK)

    def extend(self, fire_id: str, seconds: Duration, progress: Progress | None = None) -> Future[int]:
        done: Future[int] = futures.Future()
        seconds = check_seconds("seconds", seconds, LEASE_MIN_S, LEASE_MAX_S)
        try:
            done.set_result(self._target.extend(fire_id, seconds, progress))
        except Exception as error:  # noqa: BLE001  the future gets the error, as elsewhere
            done.set_exception(error)
        return done


def check_lease(queue: str, limit: int, wait: Duration, seconds: Duration) -> tuple[str, int, float, float]:
    if not checks.check_handler(queue):
        raise InvalidJobError("queue", queue, "name the queue, which jobs have as their handler")
    checks.check_count("limit", limit, LEASES_MAX)
    wait = check_seconds("wait", wait, 0, WAIT_MAX_S)
    return queue, limit, wait, check_seconds("seconds", seconds, LEASE_MIN_S, LEASE_MAX_S)


def check_delay(delay: Duration | None, *, is_dead: bool) -> float | None:
    if delay is None:
        return None
    if is_dead:
        raise InvalidJobError("delay", delay, "a dead job has no next attempt: pass delay= or is_dead=True, not both")
    return checks.delay_ms(delay) / 1000


def check_error(error: str | None) -> str:
    if error is None:
        return "its worker refused it"
    if not isinstance(error, str):
        raise InvalidJobError("error", error, f"pass a string, not {type(error).__name__}")
    return checks.check_text("error", error[:2_000], 8_000)


def check_seconds(name: str, value: Duration, least: float, most: float) -> float:
    if not least <= checks.delay_ms(value, name) / 1000 <= most:
        raise InvalidJobError(name, value, f"pass seconds in {least:g}..{most:g}")
    return max(0.0, checks.seconds(name, value))
