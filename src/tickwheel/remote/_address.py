"""
The addresses of services, which differ from those of stores in their schemes.
"""

from __future__ import annotations

__all__ = ["is_service"]


def is_service(store: object) -> bool:
    """
    Return whether *store* is the address of a service.
    """
    return isinstance(store, str) and store.lower().startswith(("http://", "https://"))
