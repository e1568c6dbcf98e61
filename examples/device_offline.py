"""
Notice silent devices: each heartbeat moves the device's timer, and a timer that is not moved fires.

    python examples/device_offline.py [SECONDS [STORE]]

SECONDS is the silence after which a device counts as offline. If STORE is a database, such as sqlite:///devices.db, no
timer is lost when this process crashes.
"""

from __future__ import annotations

import sys
import threading

from tickwheel.scheduler import Scheduler, SetRequest


def main(seconds: str = "30", store: str = "memory://") -> None:
    """
    Let three devices send heartbeats, silence one of them, and wait until it is reported offline.
    """
    silence_s = float(seconds)
    noticed = threading.Event()

    with Scheduler(store) as scheduler:

        @scheduler.task(name="offline")
        def offline(device: str) -> None:
            print(f"{device} is offline")
            noticed.set()

        devices = ["boiler", "door", "lamp"]
        scheduler.set_many(SetRequest(f"silent/{device}", offline.of(device), delay=silence_s) for device in devices)
        while not noticed.wait(silence_s / 10):  # each device except the door sends a heartbeat
            scheduler.move_many([f"silent/{device}" for device in devices if device != "door"], delay=silence_s)
        print("still watched:", [job.key for job in scheduler.drain("silent/")])


if __name__ == "__main__":
    main(*sys.argv[1:])
