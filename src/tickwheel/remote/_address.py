from __future__ import annotations

__all__ = ["is_service"]


def is_service(store: object) -> bool:
    """
    Return True if *store* is the address of a service.
    """
    return isinstance(store, str) and store.lower().startswith(("http://", "https://"))
