from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import click

from tickwheel.cli import logs, targets
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.modules import imported
from tickwheel.cli.options import served_option
from tickwheel.cli.values import DurationRange
from tickwheel.remote import is_service
from tickwheel.scheduler import AsyncScheduler, HistoryOptions, SchedulerOptions
from tickwheel.targets.log import LogTarget

__all__ = ["command"]

if TYPE_CHECKING:
    from tickwheel.observe.tracing import Tracer
    from tickwheel.service import Tokens

_LOG: Final = logging.getLogger("tickwheel.serve")
_EXAMPLE = json.dumps({"delay": 3, "target": "log", "payload": "hello"})


@click.command("serve")
@served_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="The port; 0 takes a free one."
)
@click.option("--tls-cert", metavar="FILE", help="Speak HTTPS, with the certificate and its chain in this PEM file.")
@click.option("--tls-key", metavar="FILE", help="The PEM file of its key, if that is in another one.")
@click.option(
    "--handlers", metavar="MODULE", multiple=True, help="A module whose register(scheduler) registers handlers."
)
@click.option(
    "--target",
    "target",
    metavar="NAME=URL",
    multiple=True,
    help="Another target for jobs, such as rabbitmq=amqp://localhost/; with a password, set "
    f"{targets.VARIABLE}RABBITMQ instead. Schemes: redis, amqp, nats, kafka, webhook, celery+, rq+, dramatiq+; "
    "or MODULE:OBJECT.",
)
@click.option(
    "--advertise",
    metavar="URL",
    envvar="TICKWHEEL_ADVERTISE",
    show_envvar=True,
    help="Where other nodes of the store reach this one; by default its own address.",
)
@click.option(
    "--tokens",
    metavar="FILE",
    envvar="TICKWHEEL_TOKENS",
    show_envvar=True,
    help="A file of tokens, as 'tickwheel token' prints them.",
)
@click.option("--allow-host", metavar="NAME", multiple=True, help="Another name that clients may call this service by.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="How many requests a second one client may send.",
)
@click.option(
    "--request-timeout",
    type=DurationRange(0.1),
    default=30.0,
    show_default="30s",
    help="How long a request may take to arrive.",
)
@click.option(
    "--handler-timeout",
    type=DurationRange(0),
    default=SchedulerOptions().timeout_s,
    show_default="30m",
    help="How long an attempt may take where its handler or target has no limit of its own; 0 for none.",
)
@click.option(
    "--stop-timeout",
    type=DurationRange(0),
    default=10.0,
    show_default="10s",
    envvar="TICKWHEEL_STOP_TIMEOUT",
    show_envvar=True,
    help="How long a stop waits for handlers that run.",
)
@click.option(
    "--history",
    type=click.Choice(["none", "failures", "usual", "all"]),
    default=HistoryOptions().keep,
    show_default=True,
    help="What is kept of attempts that ended: usual is failures and runs of recurring jobs, all also other successes.",
)
@click.option(
    "--history-days",
    type=click.FloatRange(min=0, max=36_525, min_open=True),
    metavar="DAYS",
    default=30.0,
    show_default=True,
    help="How long it is kept.",
)
@click.option(
    "--history-per-key",
    type=click.IntRange(min=1),
    metavar="N",
    default=HistoryOptions().per_key,
    show_default=True,
    help="How many records of one key are kept.",
)
@click.option(
    "--history-total",
    type=click.IntRange(min=1),
    metavar="N",
    default=HistoryOptions().total,
    show_default=True,
    help="How many records are kept in the whole store.",
)
@click.option("--pending-max", type=click.IntRange(min=1), metavar="N", help="How many jobs may be pending.")
@click.option(
    "--every-min",
    type=DurationRange(0.001),
    default=1.0,
    show_default="1s",
    help="The least interval of recurring jobs.",
)
@click.option("--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True, help="What is logged.")
@click.option("--log-json", is_flag=True, help="Log one JSON document a line, and print nothing else.")
@click.option(
    "--trace",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Trace firings of traced setters, and this share of the others: OpenTelemetry, as its OTEL_ variables say.",
)
@click.option(
    "--trace-url",
    metavar="URL",
    help="Where the page links to a trace, such as https://traces.example.com/trace/{trace_id}.",
)
def command(
    *,
    store: str,
    host: str,
    port: int,
    tls_cert: str | None,
    tls_key: str | None,
    handlers: tuple[str, ...],
    target: tuple[str, ...],
    advertise: str | None,
    tokens: str | None,
    allow_host: tuple[str, ...],
    rate: float | None,
    pending_max: int | None,
    request_timeout: float,
    handler_timeout: float,
    stop_timeout: float,
    history: str,
    history_days: float,
    history_per_key: int,
    history_total: int,
    every_min: float,
    log_level: str,
    log_json: bool,
    trace: float | None,
    trace_url: str | None,
) -> None:
    """
    Fire the jobs of a store, and serve its API and page, until Ctrl-C.
    """
    from tickwheel import service  # noqa: PLC0415  its libraries are in a separate extra

    if is_service(store):
        raise Refused(ExitCode.USAGE, f"--store {store!r} is a service already: name the store that it is to serve")
    logs.set_up(log_level, as_json=log_json)
    with logs.ends_logged() if log_json else nullcontext():
        options = service.ServiceOptions(
            host=host,
            port=port,
            tls_cert=tls_cert,
            tls_key=tls_key,
            advertise=advertise,
            tokens=_tokens(tokens),
            allow_hosts=frozenset(allow_host),
            rate_per_s=rate,
            pending_max=pending_max,
            request_timeout_s=request_timeout,
            every_min_s=every_min,
            stop_timeout_s=stop_timeout,
            trace_url=trace_url,
        )
        named = targets.configured(target)
        made = targets.made(named, has_to_run=True)
        if log_json:
            made["log"] = LogTarget(logs.log_firing)
        kept = HistoryOptions(history, history_days * 86_400, history_per_key, history_total)
        scheduler = AsyncScheduler(
            store,
            options=SchedulerOptions(timeout_s=handler_timeout or None, history=kept),
            targets=made,
            tracer=None if trace is None else _tracer(trace),
        )
        scheduler.subscribe(logs.log_event, routine=log_level == "debug")  # routine events cost time at every firing
        for name in handlers:
            _register(name, scheduler)
        announce = _log_start if log_json else _announce
        try:
            service.serve(scheduler, options, lambda address: announce(address, scheduler.stats()["store"], named))
        except service.PublicBindError as error:
            raise Refused(ExitCode.REFUSED, str(error)) from None
        except service.AddressError as error:
            raise Refused(ExitCode.NO_ADDRESS, str(error)) from None
        if log_json:
            _LOG.info("stopped")
        else:
            click.echo("stopped")


def _tracer(share: float) -> Tracer:
    from tickwheel.observe import otel  # noqa: PLC0415  it loads an extra's library

    try:
        otel.configure()
    except LookupError as error:
        raise Refused(ExitCode.USAGE, str(error)) from None
    return otel.OpenTelemetryTracer(share)


def _tokens(path: str | None) -> Tokens:
    from tickwheel.service import Tokens  # noqa: PLC0415  its libraries are in a separate extra

    environment = Tokens.of(read=os.environ.get("TICKWHEEL_READ_TOKEN"), write=os.environ.get("TICKWHEEL_WRITE_TOKEN"))
    return environment if path is None else environment + Tokens.from_file(path)


def _register(name: str, scheduler: AsyncScheduler) -> None:
    module = imported(name, "--handlers")
    register: Callable[[AsyncScheduler], object] | None = getattr(module, "register", None)
    if not callable(register):
        remedy = "write 'def register(scheduler)' in it, which decorates with @scheduler.handler(name)"
        raise Refused(ExitCode.USAGE, f"--handlers {name!r} has no function 'register': {remedy}")
    try:
        register(scheduler)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Refused(ExitCode.USAGE, f"--handlers {name!r}: its function 'register' raised {reason}") from error


def _announce(address: str, store: str, named: Mapping[str, str]) -> None:
    click.echo(f"tickwheel fires {store}, Ctrl-C stops it")
    for name, value in named.items():
        click.echo(f"target {name} is {targets.shown(value)}")
    click.echo(f"page  {address}/")
    click.echo(f"try   curl -X PUT {address}/v1/jobs/hello -H 'content-type: application/json' -d '{_EXAMPLE}'")


def _log_start(address: str, store: str, named: Mapping[str, str]) -> None:
    shown = {name: targets.shown(value) for name, value in named.items()}
    _LOG.info("serving", extra={logs.FACTS: {"page": f"{address}/", "store": store, "targets": shown}})
