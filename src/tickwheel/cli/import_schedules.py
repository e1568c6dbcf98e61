from __future__ import annotations

from typing import Any

import click

from tickwheel.cli import apscheduler, celerybeat, django_beat, takeover

__all__ = ["import_apscheduler", "import_celerybeat"]


@click.command("apscheduler")
@click.argument("url")
@click.option("--table", help="Where the jobs are.  [default: apscheduler_jobs, or else schedules; apscheduler.jobs]")
@click.option("--target", default="handler", show_default=True, help="Target of the jobs.")
@takeover.options
def import_apscheduler(*, url: str, table: str | None, target: str, **options: Any) -> None:
    """
    Import the jobs of APScheduler from the database at URL.

    The jobs are in a SQLAlchemyJobStore or RedisJobStore of APScheduler 3, or a SQLAlchemyDataStore of APScheduler 4.

    A job keeps its id as its key. Its handler is the name of its function, such as 'shop.reports:daily', and its
    payload is {"args": [...], "kwargs": {...}}. No code of the pickles is run.
    """
    found = apscheduler.found_in(url, table, target)
    takeover.take_over(found, **options)


@click.command("celerybeat")
@click.argument("source")
@click.option("--target", default="celery", show_default=True, help="Target of the jobs.")
@click.option("--tz", metavar="ZONE", help="The zone of crontabs.  [default: that of the settings or the file, or UTC]")
@takeover.options
def import_celerybeat(*, source: str, target: str, tz: str | None, **options: Any) -> None:
    """
    Import the entries of Celery beat from SOURCE.

    SOURCE is beat's file, a settings module, MODULE:APP, or the URL of a database with the tables of
    django-celery-beat. A module is imported, so its code runs; no code in beat's file is run.

    An entry keeps its name as its key. The target sends the entry's task to the Celery workers that ran it before.
    """
    if "://" in source:
        found = django_beat.found_in_database(source, target)
    else:
        find = celerybeat.found_in_file if celerybeat.is_file(source) else celerybeat.found_in_settings
        found = find(source, tz, target)
    takeover.take_over(found, **options)
