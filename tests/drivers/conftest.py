"""
Make the suite's assertions explain themselves.
"""

import pytest

pytest.register_assert_rewrite("tickwheel.testing.driver_suite")
