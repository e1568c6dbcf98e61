"""
Make the addresses in README.md absolute, because the page on PyPI has no files beside it. For a release only.

    python scripts/pypi_readme.py https://HOST/OWNER/NAME TAG [README.md]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!\w+:|#)([^)\s]+)\)")


def absolute(text: str, home: str, tag: str) -> str:
    """
    Return *text* with absolute links.

    They lead to pages and pictures at *tag* in the repository at *home*.
    """
    return LINK.sub(lambda link: f"{link[1]}{link[2]}({home}/{'raw' if link[1] else 'blob'}/{tag}/{link[3]})", text)


if __name__ == "__main__":
    home, tag, *path = sys.argv[1:]
    readme = Path(*path or ["README.md"])
    readme.write_text(absolute(readme.read_text("utf-8"), home.rstrip("/"), tag), "utf-8")
