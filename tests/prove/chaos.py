"""
The command `tickwheel chaos`, run with its default faults and a round trip of 150 ms to the server.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from servers import lend, postgres

from lines import Line  # isort: skip - `servers` adds its path
from redis_servers import Redis  # isort: skip - as before


@contextmanager
def url_of(kind: str) -> Iterator[str]:
    """
    Provide the URL of an empty store of *kind*.

    For a file the URL is "", because chaos makes the file itself.
    """
    if kind == "sqlite":
        yield ""
    elif kind == "redis":
        with lend(Redis) as make:
            yield f"redis://127.0.0.1:{make('--appendonly', 'yes', '--appendfsync', 'always').port}/0"
    else:
        with postgres() as server:
            line = Line(str(server.folder / ".s.PGSQL.5432"))
            try:
                yield f"postgresql://tick@127.0.0.1:{line.port}/postgres"
            finally:
                line.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=["sqlite", "postgres", "redis"], required=True)
    parser.add_argument("--seconds", default="30", help="how long there are faults (default: 30)")
    parser.add_argument("--seed", help="that of an earlier run")
    options = parser.parse_args()
    with url_of(options.kind) as url:
        words = ["chaos", "--seconds", f"{options.seconds}s", *(["--store", url] if url else [])]
        words += ["--seed", options.seed] if options.seed else []
        command = [sys.executable, "-m", "tickwheel.cli", *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    facts = dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
