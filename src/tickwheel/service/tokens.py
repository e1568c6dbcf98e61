"""
Tokens with the right to read or to write. They are kept as hashes, and compared in constant time.

A file of tokens has one token on each line, as `tickwheel token` prints it: `read HASH` or `write HASH`, where HASH is
the hexadecimal SHA-256 of the token. A plain hash is enough, because a token has 256 random bits, so no dictionary
contains it. Two optional fields follow. `until=2030-01-01T09:00:00Z` is the expiry. `prefix=team/a/`, percent-encoded,
limits the token to keys with this prefix.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from urllib.parse import quote, unquote

from tickwheel.service.errors import TokenFileError

__all__ = ["Access", "Token", "Tokens", "digest_of", "instant", "new_token"]

_NAME_MAX = 60
_LINE = re.compile(r"(read|write)\s+([0-9a-f]{64})((?:\s+\S+)*)")


class Access(IntEnum):
    """
    The rights of a token. Each right includes the rights listed before it.
    """

    READ = 1
    WRITE = 2


@dataclass(frozen=True, slots=True)
class Token:
    """
    The rights and the hash of a token, not its secret.

    *comment* names the user. *prefix* is the prefix of the token's keys, or "" for all keys and the whole service.
    *until* is the expiry, in seconds since the epoch, or None.
    """

    access: Access
    digest: str
    comment: str = ""
    prefix: str = ""
    until: float | None = None

    @property
    def name(self) -> str:
        return self.comment or f"token {self.digest[:8]}"

    def line(self) -> str:
        parts = [self.access.name.lower(), self.digest]
        if self.until is not None:
            parts.append(f"until={instant(self.until)}")
        if self.prefix:
            parts.append(f"prefix={quote(self.prefix, safe='/:@,')}")
        return " ".join(parts) + (f"  # {self.comment}" if self.comment else "")

    @classmethod
    def from_line(cls, text: str) -> Token | None:
        text, _, comment = text.partition("#")
        if not text.strip():
            return None
        match = _LINE.fullmatch(text.strip())
        if match is None:
            message = "is not a token"
            raise ValueError(message)
        fields: dict[str, str] = {}
        for part in match[3].split():
            name, _, value = part.partition("=")
            if name not in {"until", "prefix"} or name in fields or not value:
                message = "has behind its hash something else than one until=TIME and one prefix=KEYS"
                raise ValueError(message)
            fields[name] = value
        until = _until(fields["until"]) if "until" in fields else None
        prefix = unquote(fields.get("prefix", ""), errors="strict")
        return cls(Access[match[1].upper()], match[2], comment.strip()[:_NAME_MAX], prefix, until)


@dataclass(frozen=True, slots=True)
class Tokens:
    """
    All tokens. `known` has their hashes and rights, never their secrets.
    """

    known: tuple[Token, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.known)

    def find(self, token: str) -> Token | None:
        """
        Return the entry of *token*, even if it has expired. Takes constant time.

        If several entries match, the entry with the most rights is returned; of entries with equal rights, the first.
        """
        digest = digest_of(token)
        found = [each for each in self.known if hmac.compare_digest(digest, each.digest)]
        return max(found, key=lambda each: each.access, default=None)

    def name_of(self, token: str) -> str:
        """
        Return the name of *token*: its comment; without a comment, the start of its hash; "" for an unknown token.
        """
        found = self.find(token)
        return "" if found is None else found.name

    @classmethod
    def of(cls, *, read: str | None = None, write: str | None = None) -> Tokens:
        """
        Return tokens from plain text, such as the values of environment variables.
        """
        given = ((Access.READ, read), (Access.WRITE, write))
        return cls(tuple(Token(access, digest_of(token)) for access, token in given if token))

    @classmethod
    def from_file(cls, path: str) -> Tokens:
        """
        Read a file of tokens; empty lines and lines that begin with # are ignored.

        Raises a TokenFileError if the file cannot be read, has no token, or has an invalid line or a duplicate token.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenFileError(path, f"it cannot be read ({error})") from None
        known: dict[str, Token] = {}
        for number, line in enumerate(lines, 1):
            try:
                token = Token.from_line(line)
            except ValueError as error:
                raise TokenFileError(path, f"line {number} {error}") from None
            if token is not None and token.digest in known:
                raise TokenFileError(path, f"line {number} has the token of a line before it")
            if token is not None:
                known[token.digest] = token
        if not known:  # without tokens, the service would admit every client
            raise TokenFileError(path, "it has no token")
        return cls(tuple(known.values()))

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.known + other.known)


def instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _until(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        message = "has an until= that is not a time with an offset, as 2030-01-01T09:00:00Z"
        raise ValueError(message)
    return moment.timestamp()


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token() -> str:
    return f"tw_{secrets.token_urlsafe(32)}"
