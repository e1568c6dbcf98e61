"""
Write the addresses of the repository that makes the release into pyproject.toml. For a release only.

    python scripts/pypi_urls.py https://HOST/OWNER/NAME TAG [pyproject.toml]
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGES = {
    "Source": "{home}",
    "Documentation": "{home}/tree/{tag}/docs",
    "Changelog": "{home}/blob/{tag}/CHANGELOG.md",
    "Issues": "{home}/issues",
}


def table(home: str, tag: str) -> str:
    """
    Return the table `project.urls` of pyproject.toml for *tag* of the repository at *home*.
    """
    return "\n[project.urls]\n" + "".join(
        f'{name} = "{page.format(home=home, tag=tag)}"\n' for name, page in PAGES.items()
    )


if __name__ == "__main__":
    home, tag, *path = sys.argv[1:]
    with Path(*path or ["pyproject.toml"]).open("a", encoding="utf-8") as project:
        project.write(table(home.rstrip("/"), tag))
