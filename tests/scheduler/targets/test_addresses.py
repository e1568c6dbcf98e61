"""
The addresses to which a webhook may be sent.
"""

from __future__ import annotations

import pytest

from tickwheel.targets._addresses import AddressRefusedError, Guard

PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
REFUSED = [
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",  # noqa: S104  nobody binds here
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2001:0:7f00:1:0:0:80ff:fffe",
    "::7f00:1",
    "::a9fe:a9fe",
    "::ffff:0:7f00:1",
    "64:ff9b:1::7f00:1",
    "fe80::5efe:7f00:1",
    "2a00:1::5efe:7f00:1",
    "2a00:1::200:5efe:7f00:1",
    "fec0::1",
    "100::1",
    "3fff::1",
    "5f00::1",
    "192.0.0.8",
    "192.88.99.1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address):
    """
    A public address is allowed.
    """
    Guard().check(address)


@pytest.mark.parametrize("address", REFUSED)
def test_internal_addresses_are_refused(address):
    """
    Every internal address is refused, in whatever notation it is written.
    """
    with pytest.raises(AddressRefusedError, match="is not a public one: allow its network"):
        Guard().check(address)


def test_allowed():
    """
    If a network is allowed explicitly, it can be reached, but other internal networks cannot.
    """
    guard = Guard(["10.1.0.0/16", "::1"])
    guard.check("10.1.2.3")
    guard.check("::ffff:10.1.2.3")
    guard.check("::1")
    with pytest.raises(AddressRefusedError):
        guard.check("10.2.0.1")


def test_a_value_that_is_not_a_network():
    """
    A value that is not a network raises an error if it is given as an allowed network.
    """
    with pytest.raises(ValueError, match="localhost"):
        Guard(["localhost"])
