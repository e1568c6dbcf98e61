"""
Rights to read and to write: tokens, kept as hashes, compared in constant time.

A file of tokens has one on each line, as `tickwheel token` prints it: `read HASH` or `write HASH`, where HASH is the
hexadecimal SHA-256 of the token. A plain hash is enough: a token is 256 random bits, which no dictionary has.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from tickwheel.service.errors import TokenFileError

__all__ = ["Access", "Tokens", "digest_of", "new_token"]

_NAME_MAX = 60
_LINE = re.compile(r"(read|write)\s+([0-9a-f]{64})")


class Access(IntEnum):
    """
    The rights of a token; each includes those before it.
    """

    NONE = 0
    READ = 1
    WRITE = 2


@dataclass(frozen=True, slots=True)
class Tokens:
    """
    The hashes of all tokens, each with what it allows.

    Attributes:
        hashes: Of each token what it allows, and its hash.
        names: By the hash, the comment behind it: whose token it is.
    """

    hashes: tuple[tuple[Access, str], ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """
        Return whether there is any token: without one, nobody is asked for it.
        """
        return bool(self.hashes)

    def access(self, token: str) -> Access:
        """
        Return what *token* allows; takes the same time whichever it is.
        """
        digest = digest_of(token)
        found = Access.NONE
        for access, known in self.hashes:
            if hmac.compare_digest(digest, known):
                found = max(found, access)
        return found

    def name_of(self, token: str) -> str:
        """
        Return whose *token* is: its comment, or else how its hash begins; "" for a token that is not one of these.
        """
        digest = digest_of(token)
        if not any(digest == known for _, known in self.hashes):
            return ""
        return self.names.get(digest) or f"token {digest[:8]}"

    @classmethod
    def of(cls, *, read: str | None = None, write: str | None = None) -> Tokens:
        """
        Return the tokens given in the clear, as from the environment.
        """
        given = ((Access.READ, read), (Access.WRITE, write))
        return cls(tuple((access, digest_of(token)) for access, token in given if token))

    @classmethod
    def from_file(cls, path: str) -> Tokens:
        """
        Read a file of tokens; empty lines and those that begin with # are left out.

        Raises:
            TokenFileError: If it cannot be read, or has a line of another form.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenFileError(path, f"it cannot be read ({error})") from None
        hashes, names = [], {}
        for number, line in enumerate(lines, 1):
            text, _, comment = line.partition("#")
            text = text.strip()
            if not text:
                continue
            match = _LINE.fullmatch(text)
            if match is None:
                raise TokenFileError(path, f"line {number} is not a token")
            hashes.append((Access[match[1].upper()], match[2]))
            names[match[2]] = comment.strip()[:_NAME_MAX]
        return cls(tuple(hashes), names)

    def __add__(self, other: Tokens) -> Tokens:
        """
        Return the tokens of both.
        """
        return Tokens(self.hashes + other.hashes, {**self.names, **other.names})


def digest_of(token: str) -> str:
    """
    Return the hash that represents *token* in a file.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token() -> str:
    """
    Return a new token of 256 random bits.
    """
    return f"tw_{secrets.token_urlsafe(32)}"
