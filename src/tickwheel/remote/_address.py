from __future__ import annotations

__all__ = ["is_service"]


def is_service(store: object) -> bool:
    return isinstance(store, str) and store.lower().startswith(("http://", "https://"))
