"""
A caller that moves, cancels, pauses and replaces jobs near their due times.

It can also run as a separate process.
"""

from __future__ import annotations

import json
import math
import random
import sys
import threading
import time

from tickwheel.scheduler import Scheduler, SetRequest, StoreError

CALLERS = 4
SPREAD_S = 0.005
FAR_S = 7_200
VERBS = ("cancel", "move", "set", "pause")


def plan(start, instants, jobs_each):
    """
    Return *instants* steps, 80 ms apart, of which the first is at *start*.

    Each step has its time, a verb, and the keys that are due at that time.
    """
    return [
        (start + number * 0.08, VERBS[number % len(VERBS)], [f"{number}/{each}" for each in range(jobs_each)])
        for number in range(instants)
    ]


def act(scheduler, verb, keys):
    """
    Call the *verb* for *keys*.
    """
    if verb == "cancel":
        return scheduler.cancel_many(keys)
    if verb == "move":
        return scheduler.move_many(keys, delay=FAR_S)
    if verb == "pause":
        return scheduler.pause_many(keys)
    return scheduler.set_many([SetRequest(key, delay=FAR_S, handler="h") for key in keys])


def race(scheduler, steps, seed):
    """
    Call the verb of each step at about the time that the step names.

    Return the outcome, generation and time of the answer, by key. The outcome is "unknown" if the call failed because
    the owner did not answer in time.
    """
    found = {}

    def call(own):
        dice = random.Random(f"{seed} {own[0][0]}")
        for at, verb, keys in own:
            time.sleep(max(0.0, at + dice.uniform(-SPREAD_S, SPREAD_S) - time.time()))
            try:
                answers = act(scheduler, verb, keys)
            except StoreError as error:
                if not error.is_transient:
                    raise
                found.update((key, ("unknown", 0, math.inf)) for key in keys)
                continue
            answered_at = time.time()
            for key, answer in zip(keys, answers, strict=True):
                generation = answer.job.generation if answer.job else 0
                found[key] = (answer.outcome.value, generation, answered_at)

    threads = [threading.Thread(target=call, args=(steps[first::CALLERS],)) for first in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def main():
    """
    Read the URL of a store from the first input line, and a plan from the second.

    Carry out the plan on the store, and print the answers.
    """
    url, seed = sys.argv[1:]
    scheduler = Scheduler(url)
    scheduler.get("warm up")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    steps = json.loads(sys.stdin.readline())
    found = race(scheduler, steps, seed)
    scheduler.stop()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
