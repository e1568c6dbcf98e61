"""
From a URL to a target.

    redis://:password@host:6379/0?length_max=1000000       streams; rediss:// with TLS, unix:///path/of/socket
    amqp://user:password@host:5672/vhost                   RabbitMQ; amqps:// with TLS
    nats://user:password@host:4222?jetstream=false         NATS; tls:// with TLS
    kafka://one:9092,two:9092?security.protocol=SASL_SSL   Kafka; what is not timeout_s is a setting of librdkafka
    celery+amqp://..., celery+redis://...                  Celery; queue= names its queue
    rq+redis://...                                         RQ; queue= names its queue
    dramatiq+redis://...                                   Dramatiq; queue= names its queue
    webhook:?secret=whsec_...&allow=10.1.0.0/16            webhooks, signed, and what inside they may reach

`timeout_s=` goes with each. Options that are not ours are the library's where it reads them from the URL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import unquote

from tickwheel.scheduler.errors import InvalidJobError
from tickwheel.scheduler.targets._url import TargetUrl, flag, seconds, text, whole
from tickwheel.scheduler.targets.contract import Target

__all__ = ["make_target", "shown_target"]

_REDIS_OWN: Final = ("db", "ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile")
_AMQP_OWN: Final = ("heartbeat", "cafile", "capath", "certfile", "keyfile", "no_verify_ssl", "auth")
_REDIS: Final = ("redis", "rediss", "unix")
_CELERY: Final = ("amqp", "amqps", "redis", "rediss")


def make_target(url: str, *, has_to_run: bool = False) -> Target:
    """
    Make the target that *url* names, to be passed in `targets=`; it connects on first use.

    Args:
        url: Its scheme says which target, see `docs/targets.md`.
        has_to_run: Whether to refuse at once what could not run here: a missing library, settings that it refuses.

    Raises:
        InvalidJobError: If it names none, or has an option that there is none of; no message shows a password.
        MissingExtraError: If its library is missing; some are needed to make it, and all if it *has_to_run*.
    """
    parts = TargetUrl(url)
    queue, plus, _ = parts.scheme.partition("+")
    kind = _KINDS.get(queue + plus)
    if kind is None:
        raise InvalidJobError("url", parts.shown, f"its scheme is one of {', '.join(_KINDS)}: write as in {_EXAMPLE!r}")
    try:
        made = kind.make(parts)
    except InvalidJobError:
        raise
    except ValueError:  # of a library, whose text may show anything
        raise InvalidJobError("url", parts.shown, f"it cannot be read: write as in {kind.example!r}") from None
    if has_to_run:
        made.resolve(kind.handler)
    return made


def shown_target(url: str) -> str:
    """
    Return *url* without what may be secret in it: user, password and options.
    """
    return TargetUrl(url).shown


def _redis(url: TargetUrl) -> Target:
    from tickwheel.scheduler.targets.redis_stream import RedisStreamTarget  # noqa: PLC0415  loaded when it is asked for

    readers = {"length_max": whole, "once_s": whole, "timeout_s": seconds}
    found = url.take(readers)
    url.refuse_others(readers, _REDIS_OWN)
    url.check_port(_KINDS["redis"].example)
    return RedisStreamTarget(url.rest(), **found)


def _amqp(url: TargetUrl) -> Target:
    from tickwheel.scheduler.targets.amqp import AmqpTarget  # noqa: PLC0415  as above

    found = url.take({"timeout_s": seconds})
    url.refuse_others(("timeout_s",), _AMQP_OWN)
    url.check_port(_KINDS["amqp"].example)
    return AmqpTarget(url.rest(), **found)


def _nats(url: TargetUrl) -> Target:
    from tickwheel.scheduler.targets.nats import NatsTarget  # noqa: PLC0415  as above

    readers = {"jetstream": flag, "timeout_s": seconds}
    found = url.take(readers)
    url.refuse_others(readers)
    url.check_port(_KINDS["nats"].example)
    return NatsTarget(url.rest(), **found)


def _kafka(url: TargetUrl) -> Target:
    from tickwheel.scheduler.targets.kafka import KafkaTarget  # noqa: PLC0415  as above

    servers = url.base.partition("://")[2].rstrip("/")
    if "@" in servers:
        remedy = "write sasl.username= and sasl.password= after the question mark"
        raise InvalidJobError("url", url.shown, remedy)
    if not servers or "/" in servers:
        raise InvalidJobError("url", url.shown, f"it names no brokers: write as in {_KINDS['kafka'].example!r}")
    found = url.take({"timeout_s": seconds})
    return KafkaTarget(servers, config={name: unquote(value) for name, value in url.options}, **found)


def _webhook(url: TargetUrl) -> Target:
    from tickwheel.scheduler.targets.webhook import WebhookTarget  # noqa: PLC0415  as above

    if url.base.partition(":")[2]:
        raise InvalidJobError("url", url.shown, "each job names its own address: write only options, after 'webhook:?'")
    readers = {"timeout_s": seconds, "failures_max": whole, "open_s": seconds}
    found = url.take(readers)
    secrets, allow = url.take_all("secret"), url.take_all("allow")
    url.refuse_others(("secret", "allow", *readers))
    try:
        return WebhookTarget(secrets=secrets, allow=allow, **found)
    except InvalidJobError:
        raise
    except ValueError as error:
        raise InvalidJobError("allow", ", ".join(allow), f"{error}: write a network such as 10.1.0.0/16") from None


def _celery(url: TargetUrl) -> Target:
    from tickwheel.scheduler.targets.celery import CeleryTarget  # noqa: PLC0415  as above

    found = url.take({"queue": text, "timeout_s": seconds})
    return CeleryTarget.of_url(_inner(url, _CELERY), **found)


def _rq(url: TargetUrl) -> Target:
    from tickwheel.scheduler.targets.rq import RqTarget  # noqa: PLC0415  as above

    readers = {"queue": text, "timeout_s": seconds}
    found = url.take(readers)
    url.refuse_others(readers, _REDIS_OWN)
    return RqTarget.of_url(_inner(url, _REDIS), **found)


def _dramatiq(url: TargetUrl) -> Target:
    from tickwheel.scheduler.targets.dramatiq import DramatiqTarget  # noqa: PLC0415  as above

    readers = {"queue": text, "timeout_s": seconds}
    found = url.take(readers)
    url.refuse_others(readers, _REDIS_OWN)
    return DramatiqTarget.of_url(_inner(url, _REDIS), **found)


def _inner(url: TargetUrl, schemes: tuple[str, ...]) -> str:
    """
    Return the URL of a queue's broker, which follows the queue's name and a plus.
    """
    queue, _, scheme = url.scheme.partition("+")
    example = _KINDS[f"{queue}+"].example
    if scheme not in schemes or not url.base[len(url.scheme) :].startswith("://"):
        remedy = f"{queue} goes by {', '.join(f'{queue}+{each}://' for each in schemes)}"
        raise InvalidJobError("url", url.shown, f"{remedy}: write as in {example!r}")
    url.check_port(example)
    return url.rest(f"{scheme}{url.base[len(url.scheme) :]}")


class _Kind(NamedTuple):
    """
    One kind: what makes it, how it is written, and a handler's name that any of its kind can have.
    """

    make: Callable[[TargetUrl], Target]
    example: str
    handler: str = "tickwheel"


_EXAMPLE: Final = "amqp://user:password@localhost:5672/"
_STREAM: Final = _Kind(_redis, "redis://:password@localhost:6379/0")
_RABBIT: Final = _Kind(_amqp, _EXAMPLE)
_SUBJECT: Final = _Kind(_nats, "nats://user:password@localhost:4222")

_KINDS: Final[dict[str, _Kind]] = {
    "redis": _STREAM,
    "rediss": _STREAM,
    "unix": _STREAM,
    "amqp": _RABBIT,
    "amqps": _RABBIT,
    "nats": _SUBJECT,
    "tls": _SUBJECT,
    "kafka": _Kind(_kafka, "kafka://one:9092,two:9092"),
    "webhook": _Kind(_webhook, "webhook:?secret=whsec_...", "https://example.com/"),
    "celery+": _Kind(_celery, "celery+redis://:password@localhost:6379/0", "tick.wheel"),
    "rq+": _Kind(_rq, "rq+redis://:password@localhost:6379/0", "tick.wheel"),
    "dramatiq+": _Kind(_dramatiq, "dramatiq+redis://:password@localhost:6379/0"),
}
