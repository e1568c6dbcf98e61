from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tickwheel.cli.lab.options import trace_argument
from tickwheel.cli.options import json_option
from tickwheel.cli.output import print_json, print_rows
from tickwheel.lab.trace import read_trace
from tickwheel.lab.tune import advise, facts_of
from tickwheel.wheels import CARDS

__all__ = ["command"]


@click.command("tune")
@trace_argument
@json_option
def command(trace: Path, as_json: bool) -> None:
    """
    Recommend a geometry of each design for TRACE, with the reasons.
    """
    facts = facts_of(read_trace(trace))
    advice = {name: advise(facts, name) for name in CARDS}
    if as_json:
        print_json({"facts": asdict(facts)})
        for name, found in advice.items():
            wheel = None if found.design is None else str(found.design)
            print_json({"design": name, "wheel": wheel, "reasons": found.reasons})
        return
    click.echo(
        f"{facts.sets:,} sets and moves, {facts.peak_pending:,} pending at the peak; "
        f"{facts.cancelled:.0%} of the timers are cancelled, {facts.moved:.0%} of the operations are moves"
    )
    rows = [(str(found.design or f"not {name}"), "; ".join(found.reasons)) for name, found in advice.items()]
    print_rows(("wheel", "why"), rows)
