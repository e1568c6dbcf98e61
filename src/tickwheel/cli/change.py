from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from tickwheel.cli.job_options import job_options
from tickwheel.cli.options import generation_option, json_option, key_argument, opened, store_option
from tickwheel.cli.output import print_answer
from tickwheel.scheduler import RetryPolicy

__all__ = ["command"]


@click.command("change")
@key_argument
@job_options(has_defaults=False)
@generation_option
@store_option
@json_option
@click.pass_context
def command(context: click.Context, /, key: str, store: str, as_json: bool, **fields: Any) -> None:
    """
    Change fields of the pending job KEY. Fields without an option stay as they are.

    The job's due time changes only with an option for the times of its runs, such as --cron, --tz or --exclude.
    """
    usual = click.core.ParameterSource.DEFAULT
    given = {name: value for name, value in fields.items() if context.get_parameter_source(name) is not usual}
    if "attempts" in given:
        given["retry"] = replace(RetryPolicy(), attempts=given.pop("attempts"))
    with opened(store, has_targets=True) as scheduler:
        print_answer(key, scheduler.change(key, **given), as_json=as_json)
