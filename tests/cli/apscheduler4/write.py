"""
Write schedules with APScheduler 4 itself, for the tests of the import: `python write.py KIND > KIND.sql`.

The script needs `apscheduler==4.0.0a6`, `sqlalchemy[asyncio]<2.1`, `sniffio`, `cbor2` and `anyio<4.9`. They cannot be
installed beside the APScheduler 3 of the other tests.
"""

import asyncio
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from apscheduler import AsyncScheduler, CoalescePolicy
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.serializers.cbor import CBORSerializer
from apscheduler.serializers.json import JSONSerializer
from apscheduler.serializers.pickle import PickleSerializer
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy import create_engine

BERLIN = ZoneInfo("Europe/Berlin")
END = datetime(2112, 1, 1, tzinfo=BERLIN)
"""
End of the schedules: later than the date of any test run, but within a century.
"""
SERIALIZERS = {"cbor": CBORSerializer, "json": JSONSerializer, "pickle": PickleSerializer}


def _cron(**fields):
    return CronTrigger(**{"timezone": UTC, "start_time": datetime(2110, 1, 31, tzinfo=UTC)} | fields)


async def write(url, kind):
    """
    Add one schedule of each kind to the database.
    """
    store = SQLAlchemyDataStore(create_engine(url), serializer=SERIALIZERS[kind]())
    async with AsyncScheduler(store) as scheduler:

        async def add(name, trigger, **fields):
            await scheduler.add_schedule(print, trigger, id=name, **fields)

        every = IntervalTrigger(hours=1, start_time=datetime(2026, 1, 1, 0, 20, tzinfo=UTC))
        await add("once", DateTrigger(END), args=[1], kwargs={"sep": "-"})
        await add("hourly", every, misfire_grace_time=60, max_jitter=5)
        weekdays = _cron(hour=9, day_of_week="mon-fri", timezone=BERLIN, end_time=END)
        await add("weekdays", weekdays, coalesce=CoalescePolicy.all)
        await add("steps", _cron(minute="*/20", day_of_week="*/2", month="jan-mar,7"))
        await add("sundays", _cron(day="last sun,1st mon", hour=3))
        await add("last", _cron(day="last", hour=1))
        await add("both days", _cron(day="13", day_of_week="fri"))
        await add("week", _cron(week=7))
        await add("months", CalendarIntervalTrigger(months=1, timezone=BERLIN))
        await add("paused", every, paused=True)
        if kind == "pickle":
            await add("class", every, args=[timedelta(1)])


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "apscheduler.db"
    asyncio.run(write(f"sqlite:///{path}", sys.argv[1]))
    sys.stdout.write("\n".join(sqlite3.connect(path).iterdump()) + "\n")
