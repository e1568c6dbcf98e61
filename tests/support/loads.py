"""
A client that keeps setting jobs while its store is moved, switched over or lost.

It then checks whether the firings keep the guarantees of docs/promise.md.
"""

from __future__ import annotations

import itertools
import math
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager

from tickwheel.jobs.errors import StoreError
from tickwheel.scheduler import Outcome, Scheduler


class Load:
    """
    A client that sets, moves and cancels jobs, and records its answers and the firings.
    """

    def __init__(self, client, seed, pause_s):
        self.client, self.dice, self.pause_s = client, random.Random(seed), pause_s
        self.jobs, self.cancelled, self.refused, self.doubted, self.fired = {}, {}, [], set(), []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        """
        Make calls until `end` is called.
        """
        for number in itertools.count():
            self.ask(self.client.set, f"{number}", delay=self.dice.uniform(0, 2), handler="h")
            if number % 3 == 0:
                self.ask(self.client.move, self.one_before(number), delay=self.dice.uniform(0, 2))
            if number % 5 == 0:
                self.ask(self.client.cancel, self.one_before(number))
            if self.ended.wait(self.pause_s):
                return

    def one_before(self, number):
        """
        Return one of the last hundred keys up to *number*.
        """
        return f"{self.dice.randint(max(0, number - 100), number)}"

    def ask(self, verb, key, **fields):
        """
        Call *verb*, and record its answer or exception.
        """
        try:
            answer = verb(key, **fields)
        except StoreError as error:
            self.refused.append(error)
            if error.is_unknown:
                self.doubted.add(key)
            return
        if answer.outcome is Outcome.CANCELLED:
            self.jobs.pop(key, None)
            self.cancelled[key] = time.time()
        elif answer.outcome in {Outcome.CREATED, Outcome.MOVED}:
            self.jobs[key] = answer.job

    def fire(self, _payload, firing):
        self.fired.append((firing.job, firing.attempt, time.time()))

    def await_more(self, seen, more, until):
        """
        Wait until *more* items have been appended to *seen*.
        """
        enough = len(seen) + more
        until(lambda: len(seen) >= enough)

    def end(self, until):
        """
        Stop making calls, and wait until all pending jobs have fired.
        """
        self.ended.set()
        self.thread.join()
        until(lambda: not self.client.list().jobs)

    def wrongs(self):
        """
        Return the violations of docs/promise.md by kind. There should be none.

        A generation may run again only if the history shows that its earlier attempt was interrupted. A call with an
        unknown
        outcome may have either outcome.
        """
        fired = [(job.key, job.generation, attempt) for job, attempt, _ in self.fired]
        runs = Counter((key, number) for key, number, _ in fired)
        again = {(*life, attempt) for life, count in runs.items() for attempt in range(1, count)}
        cut_off = {
            (key, record.generation, record.attempt)
            for key in {key for key, _, _ in again}
            for record in self.client.history(key)
            if record.outcome == "cut_off"
        }
        found = {
            "lost": {(key, job.generation) for key, job in self.jobs.items() if key not in self.doubted} - {*runs},
            "nobody's": {key for key, _, _ in fired} - {*self.jobs, *self.cancelled, *self.doubted},
            "early": {job.key for job, _, at in self.fired if at < job.due_at / 1000},
            "cancelled": {job.key for job, _, at in self.fired if at >= self.cancelled.get(job.key, math.inf)},
            "repeated": {attempt for attempt, count in Counter(fired).items() if count > 1},
            "run again": again - cut_off,
        }
        return {kind: what for kind, what in found.items() if what}


@contextmanager
def loaded(url, pause_s=0.001):
    """
    Provide a load on the store of *url*.

    Two schedulers fire its jobs.
    """
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - a failure must be repeatable
    with ExitStack() as stack:
        load = Load(stack.enter_context(closing(Scheduler(url))), seed, pause_s)
        for _ in range(2):
            node = stack.enter_context(closing(Scheduler(url)))
            node.handler("h")(load.fire)
            node.start()
        load.thread.start()
        stack.callback(load.thread.join)
        stack.callback(load.ended.set)
        yield load
