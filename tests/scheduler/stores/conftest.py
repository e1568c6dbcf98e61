"""
The suites explain their assertions.
"""

import pytest

pytest.register_assert_rewrite("tickwheel.testing.store_suite")
