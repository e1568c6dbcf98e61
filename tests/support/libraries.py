"""
Libraries that `make test` installs.

A quick build for another Python may lack them.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs_libraries(*names: str) -> pytest.MarkDecorator:
    """
    Return a mark that skips a test if one of the libraries is missing.

    Making the mark imports no library.
    """
    missing = [name for name in names if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed here: {', '.join(missing)}")
