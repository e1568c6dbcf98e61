"""
The webhook target: an HTTP POST to the URL that the job names as its handler.

    answer                       verdict on the job
    2xx                          done
    410 Gone                     a dead letter: the receiver wants no more
    413 Content Too Large        a dead letter: the payload will not get smaller
    429, 503                     the job waits and uses no attempt: the receiver is full
    502, 504, no answer          the job waits and uses no attempt: the receiver cannot be reached
    any other status             a failed attempt; redirects are not followed

After several failures of a receiver (scheme, host and port) in a row, its jobs are delayed for a while and use no
attempt. Then one of these jobs probes the receiver. A failure is a missing answer, or a status 5xx other than 503.

After a URL answers 429 or 503 (the URL is full), its requests are paced (see `_pace`): each job gets a time at which
its request is sent. If several URLs of one receiver are full, the receiver has one pace for all its URLs. Each receiver
has its own limit of concurrent requests, so that a hanging receiver does not delay others. The circuit breaker is
asked, and the timeout of an attempt begins, only when the attempt is within this limit.
"""

from __future__ import annotations

import errno
import re
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakValueDictionary

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.observe.events import Event
from tickwheel.targets._addresses import AddressRefusedError, Guard
from tickwheel.targets._breaker import Breakers, back_off, jitter
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._not_taken import NotTakenError, put_off, waited_s
from tickwheel.targets._pace import Pace
from tickwheel.targets._signing import read_secret, signature
from tickwheel.targets._url import TargetUrl, UrlForm, number, seconds, whole
from tickwheel.targets.contract import Call, DeadLetter, Firing, Limits, Snooze
from tickwheel.typing import Duration

if TYPE_CHECKING:
    import asyncio

    import aiohttp

__all__ = ["WebhookError", "WebhookTarget"]

TIMEOUT_S = 15.0
"""Time limit from the DNS look-up to the end of the answer's head."""
_AT_ONCE = 100
"""Maximum number of concurrent requests to one receiver. `SchedulerOptions.coroutines` limits the total."""
_FULL = (429, 503)
_UNREACHABLE = (502, 504)
"""HTTP statuses of a gateway that cannot reach the receiver."""
_NO_SUCH_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
"""The resolver's errors for a name that does not exist. Other errors may be temporary."""
_PACES_MAX = 10_000
"""Maximum number of URLs whose pace is remembered."""
_FULL_ADDRESSES = 3
"""If at least this number of a receiver's URLs answer 429 or 503, the whole receiver counts as full."""
_RETRY_AFTER_MAX_S = 86_400.0
"""Maximum wait that a receiver may request: a day."""
_BROKEN = 500
"""Lowest HTTP status that means a failure of the receiver, not of the request."""
_QUERY = re.compile(r"(https?://[^\s?#]*)[?#]\S*")
"""Matches the query of a URL. The query may contain a secret, so it must not appear in the errors of other jobs."""
_LENGTH_MAX_S = 86_400
_FAILURES_MAX = 1_000_000
_LABEL_MAX = 63
_SHOWN_BYTES = 200
"""Maximum number of bytes of a refusal's body that the stored error contains."""
_BODY_S = 1.0
"""Time limit for reading the body of a refusal."""


class WebhookError(Exception):
    """
    The receiver did not accept a firing.
    """

    def __init__(self, message: str, *, is_up: bool | None = False) -> None:
        super().__init__(message)
        self.is_up = is_up


class WebhookTarget:
    """
    Sends the payload as JSON, signed after Standard Webhooks.

    The header `webhook-id` is the same for all attempts; `_headers` lists further headers.

    Args:
        secrets: Keys to sign with ("whsec_" and base64), newest first. Without a key, requests are not signed.
        allow: Internal networks that may be reached, such as "10.1.0.0/16".
        timeout_s: Time limit of one attempt.
        failures_max: Number of consecutive failures that opens a receiver's circuit breaker.
        open_s: Longest time for which a breaker stays open. At first it opens for one second.
        rate: Maximum number of requests a second for each receiver, evenly spaced; None for no limit.

    Raises:
        InvalidJobError: If a secret is too short or invalid, a limit is not positive, or a time is over a day.
        ValueError: If one of *allow* is not a network.
    """

    def __init__(
        self,
        *,
        secrets: Iterable[str] = (),
        allow: Iterable[str] = (),
        timeout_s: Duration = TIMEOUT_S,
        failures_max: int = 5,
        open_s: Duration = 30.0,
        rate: float | None = None,
    ) -> None:
        failures_max = checks.check_count("failures_max", failures_max, _FAILURES_MAX)
        self._open_s = checks.positive_s("open_s", open_s, _LENGTH_MAX_S)
        self._breakers = Breakers(failures_max, self._open_s)
        self._rate = checks.limit_rate(rate)
        self._paces: OrderedDict[str, Pace] = OrderedDict()
        self._full: WeakKeyDictionary[Pace, set[str]] = WeakKeyDictionary()
        """The full URLs, keyed by the pace of their receiver."""
        self._keys = tuple(read_secret(secret) for secret in secrets)
        self._guard = Guard(allow)
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._timeout_s = checks.positive_s("timeout_s", timeout_s, _LENGTH_MAX_S)
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"<WebhookTarget {'signed' if self._keys else 'unsigned'}>"

    def check(self, handler: str) -> None:
        try:
            parts = urlsplit(handler)
            is_url = parts.scheme in ("http", "https") and _is_host(parts.hostname or "") and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url or not handler.isprintable() or " " in handler:
            raise InvalidJobError("handler", handler, "a webhook needs a URL such as 'https://example.com/hook'")
        if "@" in parts.netloc:
            shown = handler.replace(parts.netloc.rpartition("@")[0], "***", 1)
            raise InvalidJobError("handler", shown, "leave the password out of the URL: webhooks are signed")

    def resolve(self, handler: str) -> Call:
        self.check(handler)
        library("aiohttp", "webhook")
        return Call(self._post, is_async=True, wants_payload=False, wants_firing=True)

    def limits(self, _handler: str) -> Limits | None:
        return None if self._rate is None else Limits(rate=self._rate)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def report_to(self, emit: Callable[[Event], object]) -> None:
        self._breakers.emit = emit

    def figures(self) -> dict[str, Any]:
        now = self._breakers.clock()
        full = {name: pace.figures(now) for name, pace in self._paces.copy().items()}
        return {name: each for name, each in full.items() if each} | self._breakers.figures()

    async def _post(self, firing: Firing) -> DeadLetter | Snooze | None:
        receiver = _receiver(firing.job.handler)
        places = self._places.get(receiver)
        if places is None:
            import asyncio  # noqa: PLC0415  the loop has loaded it by now, and most schedulers have no loop

            self._places[receiver] = places = asyncio.Semaphore(_AT_ONCE)
        async with places:
            wait = self._breakers.enter(receiver)
            if wait is not None:
                return put_off(firing, wait.seconds, receiver, wait.reason)
            turn = self._turn(firing, receiver)
            if turn is not None:
                self._breakers.leave(receiver, is_up=None)
                return put_off(firing, turn, receiver, "it takes only so many messages in a second")
            is_up: bool | None = None
            is_taken: bool | None = None
            is_missed, verdict, reason = False, None, ""
            try:
                is_up, verdict = await self._ask(firing)
                is_taken = True
            except WebhookError as error:
                is_up, reason = error.is_up, str(error)
                is_taken = True if is_up else None
                raise
            except NotTakenError as error:
                is_up, reason = error.is_up, error.reason
                if error.is_full:
                    is_taken = False
                    return put_off(firing, self._refused(firing, receiver, error.after_s), receiver, reason)
                is_missed = True
            finally:
                self._breakers.leave(receiver, is_up=is_up, reason=_QUERY.sub(r"\1", reason))
                if is_taken is not False:
                    self._note(firing, receiver, is_taken=bool(is_taken))
            if is_missed:
                wait = self._breakers.turn(receiver)
                wait_s = back_off(waited_s(firing), self._open_s) if wait is None else wait.seconds
                return put_off(firing, wait_s, receiver, reason)
            return verdict

    def _turn(self, firing: Firing, receiver: str) -> float | None:
        now, message = self._breakers.clock(), firing.message_id
        whole = self._pace(receiver)
        wait = whole.enter(message, now)
        if wait is not None or whole.is_set:
            return wait
        return self._pace(_address(firing.job.handler)).enter(message, now)

    def _note(self, firing: Firing, receiver: str, *, is_taken: bool) -> None:
        for name in {receiver, _address(firing.job.handler)}:
            pace = self._pace(name)
            if is_taken:
                pace.note_taken(self._breakers.clock())
            else:
                pace.note_nothing()

    def _refused(self, firing: Firing, receiver: str, after_s: float | None) -> float:
        now, address, whole = self._breakers.clock(), _address(firing.job.handler), self._pace(receiver)
        full = self._full.setdefault(whole, set())
        full.intersection_update(each for each in full.copy() if each in self._paces and self._paces[each].is_set)
        full.add(address)
        pace = self._pace(address)
        if whole.is_set or len(full) >= _FULL_ADDRESSES:
            pace.note_nothing()
            pace = whole
        else:
            whole.note_nothing()
        pace.note_refused(now, after_s)
        wait = pace.enter(firing.message_id, now)
        return jitter() if wait is None else wait

    def _pace(self, name: str) -> Pace:
        found = self._paces.get(name)
        if found is None:
            found = self._paces[name] = Pace()
            if len(self._paces) > _PACES_MAX:
                self._paces.popitem(last=False)
        else:
            self._paces.move_to_end(name)
        return found

    async def _ask(self, firing: Firing) -> tuple[bool | None, DeadLetter | None]:
        """
        Send the request. Return whether the receiver works (None if unknown), and a dead letter if the job must end.
        """
        client = library("aiohttp", "webhook")
        url = firing.job.handler
        try:
            async with self._opened().post(
                url, data=firing.job.payload, headers=self._headers(firing), allow_redirects=False
            ) as answer:
                return answer.status < _BROKEN, await _verdict(answer)
        except client.InvalidURL as error:
            return None, DeadLetter(f"{url} cannot be called: {error.description or 'it is no URL'}")
        except client.ClientConnectorError as error:
            if isinstance(error.os_error, AddressRefusedError):
                return None, DeadLetter(f"{url}: {error.os_error}")
            message = f"{url} cannot be reached: {error.os_error.strerror or error.os_error}"
            if isinstance(error.os_error, socket.gaierror) and error.os_error.errno in _NO_SUCH_NAME:
                raise WebhookError(message) from None
            is_ours = error.os_error.errno in (errno.EMFILE, errno.ENFILE)  # this process or system lacks files
            raise NotTakenError(message, is_up=None if is_ours else False) from None
        except TimeoutError:
            message = f"{url} did not answer within {self._timeout_s:g} s"
        except client.ClientResponseError as error:  # its repr has the headers of the request with the signature
            message = f"{url} sent an answer that cannot be read: {error.message}"
            raise WebhookError(message) from None
        except client.ClientError as error:
            message = f"{url} broke off: {error!r}"
        raise NotTakenError(message, is_up=False) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            client = library("aiohttp", "webhook")
            self._session = client.ClientSession(
                connector=client.TCPConnector(limit=0, use_dns_cache=False, socket_factory=self._new_socket),
                timeout=client.ClientTimeout(total=self._timeout_s),
                cookie_jar=client.DummyCookieJar(),
                auto_decompress=False,
                headers={"user-agent": "tickwheel", "content-type": "application/json"},
            )
        return self._session

    def _new_socket(self, info: tuple[Any, Any, int, str, tuple[Any, ...]]) -> socket.socket:
        # called just before the connection, for host names and literal addresses alike
        family, kind, protocol, _, address = info
        self._guard.check(address[0])
        return socket.socket(family, kind, protocol)

    def _headers(self, firing: Firing) -> dict[str, str]:
        message = firing.message_id
        timestamp = int(firing.fired_at / 1000)
        found = {"webhook-id": message, "webhook-timestamp": str(timestamp), **headers(firing)}
        if self._keys:
            found["webhook-signature"] = signature(self._keys, message, timestamp, firing.job.payload)
        return found


async def _verdict(answer: aiohttp.ClientResponse) -> DeadLetter | None:
    status = answer.status
    if 200 <= status < 300:  # noqa: PLR2004  the statuses of success
        return None
    body = await _body(answer)
    text = f"{answer.url} answered {status} {answer.reason}" + (f": {body}" if body else "")
    if status in (410, 413):
        return DeadLetter(text if status == 410 else f"the message is too large: {text}")  # noqa: PLR2004  the status Gone
    if status in _FULL:
        after = _retry_after(answer.headers.get("retry-after"))
        raise NotTakenError(text, is_up=True, is_full=True, after_s=after)
    if status in _UNREACHABLE:
        raise NotTakenError(text, is_up=False)
    raise WebhookError(text, is_up=status < _BROKEN)


async def _body(answer: aiohttp.ClientResponse) -> str:
    import asyncio  # noqa: PLC0415  the loop has loaded it by now

    client = library("aiohttp", "webhook")
    try:
        async with asyncio.timeout(_BODY_S):
            body = await answer.content.read(_SHOWN_BYTES)
    except (TimeoutError, client.ClientError):
        return ""
    return body.decode(errors="replace").strip()


def _is_host(name: str) -> bool:
    return all(0 < len(label) <= _LABEL_MAX for label in name.removesuffix(".").split("."))


def _receiver(url: str) -> str:
    # URLs with the same receiver fail and recover together
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _address(url: str) -> str:
    # the query may contain a secret; URLs that differ only in it share one pace
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path or '/'}"


def _retry_after(value: str | None) -> float | None:
    # a time that is not in the future counts as invalid, because one of the clocks may be wrong
    if value is None:
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  few receivers ask for a wait

    try:
        seconds = float(value) if value.isdigit() else _until(parsedate_to_datetime(value))
    except (TypeError, ValueError, OverflowError):
        return None
    return min(seconds, _RETRY_AFTER_MAX_S) if seconds > 0 else None


def _until(when: datetime) -> float:
    return (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def _of_url(url: TargetUrl) -> WebhookTarget:
    if url.base.partition(":")[2]:
        raise InvalidJobError("url", url.shown, "each job names its own address: write only options, after 'webhook:?'")
    readers = {"timeout_s": seconds, "failures_max": whole, "open_s": seconds, "rate": number}
    found = url.take(readers)
    secrets, allow = url.take_all("secret"), url.take_all("allow")
    url.refuse_others(("secret", "allow", *readers))
    try:
        return WebhookTarget(secrets=secrets, allow=allow, **found)
    except InvalidJobError:
        raise
    except ValueError as error:
        raise InvalidJobError("allow", ", ".join(allow), f"{error}: write a network such as 10.1.0.0/16") from None


URL_FORM = UrlForm(_of_url, "webhook:?secret=whsec_...", "https://example.com/")
