"""
Signatures of webhooks.
"""

from __future__ import annotations

import base64

import pytest

from tickwheel.scheduler import InvalidJobError
from tickwheel.targets._signing import read_secret, signature

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105  the specification's example


def test_the_published_example():
    """
    The signature of a known message equals the signature in the Standard Webhooks specification.
    """
    body = b'{"test": 2432232314}'
    found = signature((read_secret(SECRET),), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_two_keys():
    """
    While one key replaces another, a message has one signature for each key.
    """
    old, new = read_secret(SECRET), b"n" * 24
    found = signature((new, old), "id", 1, b"null").split(" ")
    assert found == [signature((new,), "id", 1, b"null"), signature((old,), "id", 1, b"null")]


@pytest.mark.parametrize(
    "secret", ["whsec_" + base64.b64encode(b"short").decode(), "whsec_!!!", "", "whsec_" + "A" * 200]
)
def test_bad_secrets(secret):
    """
    A key that cannot be read or has a wrong length is refused.

    The error does not repeat the key.
    """
    with pytest.raises(InvalidJobError) as caught:
        read_secret(secret)
    assert secret.removeprefix("whsec_")[:6] not in str(caught.value) or not secret
