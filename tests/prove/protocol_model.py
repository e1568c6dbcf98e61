"""
Checks all executions of the protocol's model, `model/protocol.pml`.

The check must find each known fault.

    python tests/prove/protocol_model.py [--fault NAME] [--trail]

Needs `spin` and a C compiler. The last line has the number of states, and the number of faults found.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODEL: Final = Path(__file__).parent / "model" / "protocol.pml"

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "an owner is named by its host": ("NAMED_BY_HOST",),
    "a former owner takes the notes, and nobody looks back": ("UNFENCED_NOTES", "NO_LOOK_BACK"),
    "no last check at the start": ("NO_LAST_CHECK",),
    "what is claimed is too late": ("CLAIMED_IS_TOO_LATE",),
    "a start does not ask for the lease": ("UNTRUSTED_START",),
    "a former owner's writes are taken": ("UNFENCED_WRITES",),
}
"""For each known fault, the switches that put it into the model. The check must find each of these faults."""

ENOUGH: Final[dict[str, tuple[str, ...]]] = {
    "fenced notes, without looking back": ("NO_LOOK_BACK",),
    "looking back, without fenced notes": ("UNFENCED_NOTES",),
}
"""
For each of two remedies for lost notifications, the switch that turns the other remedy off.
"""


@dataclass(frozen=True, slots=True)
class Checked:
    """
    The result of one check.

    Attributes:
        states: Number of states.
        broken: The assertion that failed, or "" if none did in any execution.
        trail: The steps that lead to the failure.
    """

    states: int
    broken: str
    trail: str


def check(defines: tuple[str, ...] = (), *, circles: bool = False) -> Checked:
    """
    Build the checker for the model with *defines*. Run it to the end or to the first violation.

    If *circles* is true, search only for an execution that never ends.
    """
    switches = [f"-D{name}" for name in defines]
    with tempfile.TemporaryDirectory(prefix="tickwheel-model-") as folder:

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=500)
            if done.returncode:
                message = f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"
                raise RuntimeError(message)
            return done.stdout

        run("spin", "-a", *switches, str(MODEL))
        # Without reduction, because it cannot be combined with the parts that wait for the end.
        # The usual check misses an endless execution, because the main assertion is checked at the end of an execution.
        switched = ["-w", "-DNOREDUCE", "-DMEMLIM=3000", "-DNP" if circles else "-DSAFETY"]
        level = "-O0" if defines in FAULTS.values() else "-O2"  # a fault is found before optimised code is compiled
        run("cc", level, *switched, "-o", "pan", "pan.c")
        found = run("./pan", "-m200000", *(["-l"] if circles else []))
        if "max search depth too small" in found or "out of memory" in found:
            message = f"the check did not get through: {found}"
            raise RuntimeError(message)
        broken = re.search(r"^pan:\d+: (.*) \(at depth", found, re.MULTILINE)
        errors = re.search(r"errors: (\d+)", found)
        states = re.search(r"(\d+) states, stored", found)
        assert states, found
        assert errors, found
        assert (errors[1] != "0") == bool(broken), found
        trail = ""
        if broken:
            trail = run("spin", "-t", "-p", "-w", *switches, "-k", str(next(Path(folder).glob("*.trail"))), str(MODEL))
        return Checked(int(states[1]), broken[1].strip() if broken else "", trail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=[name for names in FAULTS.values() for name in names], help="only this one")
    parser.add_argument("--trail", action="store_true", help="print the steps that lead to a violation")
    options = parser.parse_args()
    if options.fault:
        found = check(next(names for names in FAULTS.values() if options.fault in names))
        print(found.trail if options.trail else "", found.broken or "nothing was found")
        return 0 if found.broken else 1
    whole = check()
    broken = [whole.broken, check(circles=True).broken, *(check(switched).broken for switched in ENOUGH.values())]
    missed = [name for name, switched in FAULTS.items() if not check(switched).broken]
    for line in (*filter(None, broken), *(f"not found: {name}" for name in missed)):
        print(line)
    count = f"{len(FAULTS) - len(missed)} of {len(FAULTS)}"
    print(f"{whole.states} states, broken {sum(map(bool, broken))}, faults found {count}")
    return 1 if missed or any(broken) else 0


if __name__ == "__main__":
    sys.exit(main())
