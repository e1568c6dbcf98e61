"""
Internal: the application's configuration, which Django reads for the entry of `INSTALLED_APPS`.
"""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

__all__ = ["TickwheelConfig"]


class TickwheelConfig(AppConfig):
    """
    Finds the handlers in the modules `jobs`, and makes the tables of the jobs when the project migrates.
    """

    name = "tickwheel.integrations.django._app"
    label = "tickwheel"
    verbose_name = "Scheduled jobs"

    def ready(self) -> None:
        post_migrate.connect(_prepare, sender=self)
        autodiscover_modules("jobs")


def _prepare(using: str, **_: object) -> None:
    from tickwheel.integrations.django._scheduler import prepare  # noqa: PLC0415  it needs the settings

    prepare(using)
