"""
Makes targets from URLs.

    redis://:password@host:6379/0?length_max=1000000       streams; rediss:// with TLS, unix:///path/of/socket
    amqp://user:password@host:5672/vhost                   RabbitMQ; amqps:// with TLS
    nats://user:password@host:4222?jetstream=false         NATS; tls:// with TLS
    kafka://one:9092,two:9092?security.protocol=SASL_SSL   Kafka; other options are settings of librdkafka
    celery+amqp://..., celery+redis://...                  Celery; queue= names its queue
    rq+redis://...                                         RQ; queue= names its queue
    dramatiq+redis://...                                   Dramatiq; queue= names its queue
    webhook:?secret=whsec_...&allow=10.1.0.0/16            signed webhooks, and the internal networks they may reach

Each module parses its own URLs, and is loaded on use. All URLs take `timeout_s=`. If a library reads options from the
URL, options that tickwheel does not know are passed to the library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._url import REDIS_SCHEMES, TargetUrl

if TYPE_CHECKING:
    from tickwheel.targets._url import UrlForm
    from tickwheel.targets.contract import Target

__all__ = ["make_target", "shown_target"]

_EXAMPLE: Final = "amqp://user:password@localhost:5672/"
MODULES: Final = {
    **dict.fromkeys(REDIS_SCHEMES, "redis_stream"),
    "amqp": "amqp",
    "amqps": "amqp",
    "nats": "nats",
    "tls": "nats",
    "kafka": "kafka",
    "webhook": "webhook",
    "celery+": "celery",
    "rq+": "rq",
    "dramatiq+": "dramatiq",
}
"""The module for each URL scheme. In a scheme such as "rq+redis", the part up to the plus sign decides."""


def make_target(url: str, *, has_to_run: bool = False) -> Target:
    """
    Make the target that *url* names, for `targets=`; the module lists the forms. A target connects on first use.

    If *has_to_run* is True, check immediately that the target's library and settings allow the target to run here.

    Raises:
        InvalidJobError: If *url* names no target, or has an unknown option; no message shows a password.
        MissingExtraError: If a library that the target needs here is missing.
    """
    parts = TargetUrl(url)
    queue, plus, _ = parts.scheme.partition("+")
    module = MODULES.get(queue + plus)
    if module is None:
        remedy = f"its scheme is one of {', '.join(MODULES)}: write as in {_EXAMPLE!r}"
        raise InvalidJobError("url", parts.shown, remedy)
    form: UrlForm = import_module(f"tickwheel.targets.{module}").URL_FORM
    try:
        made = form.make(parts)
    except InvalidJobError:
        raise
    except ValueError:  # this is the error of a library, whose text may contain secrets
        raise InvalidJobError("url", parts.shown, f"it cannot be read: write as in {form.example!r}") from None
    if has_to_run:
        made.resolve(form.handler)
    return made


def shown_target(url: str) -> str:
    """
    Return *url* without its secrets: user, password and options.
    """
    return TargetUrl(url).shown
