"""
Signatures of Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`.

With a signature, a receiver verifies the sender and the time of a message, and recognises a replay.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from hashlib import sha256

from tickwheel.jobs.errors import InvalidJobError

__all__ = ["read_secret", "signature"]

_PREFIX = "whsec_"
_BYTES_MIN, _BYTES_MAX = 24, 64
"""Minimum and maximum length of a key, in bytes, according to the specification. A shorter key could be guessed."""


def read_secret(secret: str) -> bytes:
    """
    Return the key that *secret* ("whsec_" and base64) encodes. No error shows the secret.
    """
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise InvalidJobError("secret", "whsec_...", "write the key in base64 after 'whsec_'") from None
    if not _BYTES_MIN <= len(key) <= _BYTES_MAX:
        raise InvalidJobError(
            "secret", "whsec_...", f"it has {len(key)} bytes: take {_BYTES_MIN} to {_BYTES_MAX} random ones"
        )
    return key


def signature(keys: tuple[bytes, ...], message: str, timestamp: int, body: bytes) -> str:
    # one signature for each key, so that keys can be rotated without a gap
    signed = f"{message}.{timestamp}.".encode() + body
    return " ".join("v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode() for key in keys)
