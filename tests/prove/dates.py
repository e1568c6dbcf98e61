"""
Runs all tests that read the time of day, with the clock set to dates and times that often reveal faults.

    python tests/prove/dates.py            run the tests that tests/wall_clock.txt lists
    python tests/prove/dates.py --record   run the quick tests, and rewrite that list
    python tests/prove/dates.py --record tests/service    rewrite only the part of the list for one folder

With `--record`, an interposed clock finds out which tests read the time of day. This clock changes the time of day, and
leaves the monotonic clock unchanged. Debian's libfaketime cannot do that: with its own monotonic clock the drivers
hang, and with the system's monotonic clock `time.sleep` fails.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from clock_trips import build_clock

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "wall_clock.txt"
LEFT_OUT = ("prove", "house", "deploy", "conformance", "lab", "crash", "core", "service/page")
"""Folders whose tests are not run: they start third-party programs, have their own clock, or do not depend on dates."""
CPU_S, LASTED_S = 0.1, 2.0
"""
Maximum CPU time and duration in seconds of a test in tests/wall_clock.txt.
"""
PYTEST = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "120"]
INSTANTS = (
    ("2026-11-28 15:59:58", "UTC", "Saturday afternoon, Sunday in Tokyo"),
    ("2028-02-28 23:59:58", "UTC", "29 February begins"),
    ("2028-02-29 23:59:58", "UTC", "29 February ends"),
    ("2027-03-28 01:59:58", "Europe/Berlin", "summer time begins in Berlin"),
    ("2027-10-31 02:59:58", "Europe/Berlin", "summer time ends in Berlin"),
    ("2027-03-14 01:59:58", "America/New_York", "summer time begins in New York"),
    ("2027-11-07 01:59:58", "America/New_York", "summer time ends in New York"),
    ("2026-12-31 23:59:58", "UTC", "New Year, and the 31st ends"),
    ("2016-12-31 23:59:58", "UTC", "a day with a leap second ends"),
    ("2038-01-19 03:14:06", "UTC", "32 bits of seconds end"),
    ("2100-02-28 23:59:58", "UTC", "1 March of a year without a leap day"),
)


def run(library: Path, instant: tuple[str, str, str], arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """
    Run the listed tests in the zone of *instant*, and let each of them begin at *instant*.
    """
    text, zone, _ = instant
    names = LIST.read_text("utf-8").splitlines()
    files = sorted({name.partition("::")[0] for name in names})
    since = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()
    with tempfile.NamedTemporaryFile(prefix="tickwheel-offset-") as offset:
        offset.write(struct.pack("<q", int((since - time.time()) * 1e9)))  # importing a test file may read the clock
        offset.flush()
        clock = {"LD_PRELOAD": str(library), "INTERPOSED_OFFSET": offset.name, "TZ": zone}
        command = [*PYTEST, f"--only-listed={LIST}", f"--from-instant={since}", *arguments, *files]
        return subprocess.run(command, cwd=ROOT, env=os.environ | clock, capture_output=True, text=True, check=False)


def record(library: Path, arguments: list[str]) -> int:
    """
    Write the list of quick tests that read the time of day.
    """
    reads, found, costs = (library.with_name(name) for name in ("reads", "found", "costs"))
    reads.write_bytes(bytes(8))
    clock = {"LD_PRELOAD": str(library), "INTERPOSED_READS": str(reads)}
    left_out = [f"--ignore=tests/{folder}" for folder in LEFT_OUT]
    command = [*PYTEST, "--quick", f"--record-dates={found}", f"--cpu-log={costs}", *left_out, *arguments]
    code = subprocess.run(command, cwd=ROOT, env=os.environ | clock, check=False).returncode
    ran = [json.loads(line) for line in costs.read_text("utf-8").splitlines()]
    files = {name.partition("::")[0] for name, *_ in ran}
    others = {name for name in LIST.read_text("utf-8").splitlines() if name.partition("::")[0] not in files}
    dear = {name for name, cpu_s, lasted_s, _ in ran if cpu_s > CPU_S or lasted_s > LASTED_S}
    cheap = sorted(others | set(found.read_text("utf-8").splitlines()) - dear)
    names = list({name.partition("[")[0]: name for name in reversed(cheap)}.values())[::-1]
    LIST.write_text("".join(f"{name}\n" for name in names), "utf-8")
    print(f"{len(names)} tests read the time of day")
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="list the tests again")
    parser.add_argument("--at", default="", metavar="WORD", help="only instants whose line has this")
    options, arguments = parser.parse_known_args()
    instants = [instant for instant in INSTANTS if options.at in " ".join(instant)]
    with tempfile.TemporaryDirectory(prefix="tickwheel-clock-") as folder:
        library = build_clock(Path(folder))
        if options.record:
            return record(library, arguments)
        with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:  # the tests wait for more than half of the time
            answers = list(pool.map(lambda instant: run(library, instant, arguments), instants))
    for instant, answer in zip(instants, answers, strict=True):
        if answer.returncode:
            print(f"\n==== {' '.join(instant)}\n{answer.stdout}{answer.stderr}")
    for (text, zone, what), answer in zip(instants, answers, strict=True):
        print(f"{text}  {zone:17} {what:38} {(answer.stdout.splitlines() or ['nothing'])[-1]}")
    return int(any(answer.returncode for answer in answers))


if __name__ == "__main__":
    sys.exit(main())
