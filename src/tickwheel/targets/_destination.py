from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from tickwheel.jobs.errors import DeliveryError, InvalidJobError

__all__ = ["Destination"]

_MASK = "***"


class Destination:
    """
    The address that a target sends to. *url* is complete; *shown* has no user and password.
    """

    __slots__ = ("_secrets", "shown", "url")

    def __init__(self, url: str, shown: str, secrets: Iterable[str] = ()) -> None:
        self.url = url
        self.shown = shown
        found = {form for secret in secrets for form in (secret, unquote(secret), quote(secret, safe="")) if form}
        self._secrets = sorted(found, key=len, reverse=True)

    @classmethod
    def of_url(cls, url: str, schemes: tuple[str, ...], example: str) -> Destination:
        try:
            parts: SplitResult | None = urlsplit(url)
        except ValueError:  # such as an unclosed bracket
            parts = None
        if parts is None or parts.scheme not in schemes:
            shown = _MASK if parts is None or "@" in url else url
            remedy = f"its scheme is one of {', '.join(schemes)}: pass a URL such as {example!r}"
            raise InvalidJobError("url", shown, remedy)
        user, _, host = parts.netloc.rpartition("@")
        hidden = [value for name, value in parse_qsl(parts.query) if "password" in name or "token" in name]
        netloc = f"{_MASK}@{host}" if user else host
        shown = parts._replace(netloc=netloc, query="").geturl()
        return cls(url, shown, [*user.split(":", 1)[-1:], *hidden])

    @classmethod
    def masking(cls, shown: str, *secrets: str) -> Destination:
        """
        Return a destination whose address only its client library knows. Its error messages do not show *secrets*.
        """
        found = [urlsplit(each).password or "" if "://" in each else each for each in secrets]
        return cls("", shown, found)

    def __repr__(self) -> str:
        return f"<{self.shown}>"

    def failed(self, error: object) -> DeliveryError:
        return DeliveryError(self.shown, self.masked(error))

    def masked(self, error: object) -> str:
        text = str(error) or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text
