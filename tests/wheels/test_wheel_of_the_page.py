"""
The wheel in docs/write-a-wheel.md passes the whole contract suite, as that page says.
"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "write-a-wheel.md"
PARTS = {"__name__": __name__}
for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
    exec(compile(code, str(PAGE), "exec"), PARTS)  # noqa: S102  it is our own page


class TestWheelOfThePage(PARTS["TestSortedWheel"]):
    pass
