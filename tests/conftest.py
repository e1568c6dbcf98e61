"""
The real traces, and what others say comes of them, where they are.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def traces() -> Path:
    """
    Return the directory of the real traces.
    """
    path = SHARED / "traces"
    if not path.is_dir():
        pytest.skip("../shared/traces is not here")
    return path


@pytest.fixture(scope="session")
def oracle() -> Callable[[Path], dict[str, int]]:
    """
    Return the oracle: a heap and a dict, written by others.
    """
    path = SHARED / "suites" / "replay_oracle.py"
    if not path.is_file():
        pytest.skip("../shared/suites/replay_oracle.py is not here")
    spec = importlib.util.spec_from_file_location("replay_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    replay: Callable[[Path], dict[str, int]] = module.replay
    return replay
