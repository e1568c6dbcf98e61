"""
The command line of a proof whose nodes run as processes of the same program.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["run_command"]


def run_command(
    description: str | None,
    rounds: int,
    own: Callable[[Path, str, str], object],
    prove: Callable[[str, int, int], Any],
    line_of: Callable[[Any], str],
) -> int:
    """
    Run one node if the command line requests it.

    Otherwise run the proof, and print one line. Return 1 if the proof failed.

    Args:
        description: Text of --help.
        rounds: Default number of rounds.
        own: Runs a node; takes the proof's folder, the store's URL and the node's name.
        prove: Runs the proof; takes the store's URL, the rounds and the seed.
        line_of: Returns the line to print for the result of *prove*.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", required=True, metavar="URL")
    parser.add_argument("--own", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.own is not None:
        own(options.own, options.store, options.name)
        return 0
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    result = prove(options.store, options.rounds, seed)
    print(f"{line_of(result)}, seed {seed}")
    return 0 if result.is_good else 1
