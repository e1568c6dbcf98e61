"""
`manage.py tickwheel`: fire the project's jobs.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tickwheel.integrations._worker import fire_until_stopped
from tickwheel.integrations.django import jobs
from tickwheel.scheduler import StoreError
from tickwheel.typing import StartRole

__all__ = ["Command"]


class Command(BaseCommand):
    help = "Fires jobs until SIGINT or SIGTERM."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument(
            "--role",
            choices=("auto", "owner"),
            default="auto",
            help="on SQLite, where one process fires: auto (the default) waits until another one ends, owner fails",
        )

    def handle(self, *, role: StartRole, **_: object) -> None:
        try:
            fire_until_stopped(jobs.scheduler, role, self._say)
        except StoreError as error:
            raise CommandError(str(error)) from error

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
