"""
Refuses webhooks to internal addresses, which the author of a URL could not reach from outside.

Refuses loopback, private, shared, link-local (where clouds serve metadata), multicast, reserved and unspecified
addresses, even if they are wrapped in IPv6 addresses (mapped, 6to4, Teredo, NAT64, ISATAP). Any other IPv6 address is
public only within 2000::/3.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

__all__ = ["AddressRefusedError", "Guard"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GIVEN = ipaddress.IPv6Network("2000::/3")
_ISATAP = 0x5EFE
"""Bits 32 to 63, without the universal bit, of an ISATAP address (RFC 5214). Its last 32 bits are an IPv4 address."""
_SPECIAL: tuple[Network, ...] = (
    ipaddress.IPv4Network("192.0.0.0/24"),  # protocol assignments
    ipaddress.IPv4Network("192.88.99.0/24"),  # formerly the relays of 6to4
    ipaddress.IPv6Network("3fff::/20"),  # documentation
)
"""Non-public networks that some of the supported Python versions consider public."""


class AddressRefusedError(OSError):
    def __init__(self, address: str) -> None:
        # not in the text, because errors of one host must have equal texts to be grouped
        self.address = address
        super().__init__("its address is not a public one: allow its network, or call another host")


class Guard:
    """
    Distinguishes public addresses from internal ones. *allow* lists internal networks that may be reached.
    """

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._allowed: tuple[Network, ...] = tuple(ipaddress.ip_network(network) for network in allow)

    def check(self, address: str) -> None:
        parsed = ipaddress.ip_address(address.partition("%")[0])
        for each in _wrapped(parsed):
            if any(each.version == network.version and each in network for network in self._allowed):
                continue
            if not _is_public(each):
                raise AddressRefusedError(address)


def _is_public(address: Address) -> bool:
    if any(address.version == network.version and address in network for network in _SPECIAL):
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _GIVEN:
        return False
    return address.is_global and not address.is_multicast


def _wrapped(address: Address) -> list[Address]:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return [address.ipv4_mapped]
        if address.sixtofour is not None:
            return [address.sixtofour]
        if address.teredo is not None:
            return list(address.teredo)
        if address in _NAT64:
            return [_lowest(address)]
        if (int(address) >> 32) & 0xFDFF_FFFF == _ISATAP:
            return [address, _lowest(address)]
    return [address]


def _lowest(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
