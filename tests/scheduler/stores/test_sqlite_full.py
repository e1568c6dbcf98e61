"""
A SQLite store on a disk without room.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap

import pytest

FULL = """
    import os, sys
    from tickwheel.jobs import model
    from tickwheel.jobs.errors import StoreError
    from tickwheel.stores.sqlite import SqliteStore

    folder, (jobs, size, more, ahead) = sys.argv[1], map(int, sys.argv[2:])
    store = SqliteStore(folder + "/jobs.db")
    store.open()
    store.acquire("owner")
    first = store.now_ms() + ahead
    store.apply([model.Set(model.Job(f"key {i}", 0, first + i, bytes(size))) for i in range(jobs)])
    filler = open(folder + "/filler", "wb", buffering=0)

    def fill():
        part = 4096
        while part:
            try:
                filler.write(bytes(part))
            except OSError:
                part //= 2

    def attempt(*writes):
        try:
            return store.apply(writes)[0].outcome
        except StoreError as error:
            return error

    fill()
    late = model.Set(model.Job("late", 0, 0, bytes(more)))
"""

BY_ITS_OWNER = """
    print(attempt(late))
    print([attempt(model.Cancel(f"key {i}")) for i in range(50)].count("cancelled"))
    fill()
    print(attempt(late))
    print(len(store.renew("owner")), attempt(late))
    os.truncate(folder + "/filler", 0)
    print(len(store.renew("owner")), attempt(late))
    store.close()
    print(sorted(os.listdir(folder)))
"""

BY_ANOTHER = """
    owner, store = store, SqliteStore(folder + "/jobs.db")
    store.open()
    print([attempt(model.Cancel(f"key {i}")) for i in range(50)].count("cancelled"))
    fill()
    print(attempt(late))
    os.truncate(folder + "/filler", 0)
    print(attempt(late))
    store.close()
    owner.close()
"""


def run_on(disk, folder, program, sizes):
    """
    Mount a disk of *disk* bytes at *folder*, and run *program* with the arguments *sizes*.

    Return the lines that the program prints.
    """
    script = f'mount -t tmpfs -o size={disk} tmpfs "$1" && exec "$2" -c "$3" "$1" {sizes}'
    program = textwrap.dedent(program)
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", folder, sys.executable, program]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if answer.returncode and ("unshare" in answer.stderr or "mount" in answer.stderr):
        pytest.skip(f"nothing can be mounted here: {answer.stderr.strip()}")
    assert answer.stderr == ""
    return answer.stdout.splitlines()


@pytest.mark.skipif(not shutil.which("unshare"), reason="unshare is not installed: util-linux has it")
@pytest.mark.parametrize(
    ("disk", "sizes"),
    [
        ("4m", "500 100 100000 0"),
        ("24m", "1500 2000 100000 0"),
        ("24m", "60 60000 2000000 0"),
        ("4m", "500 400 100000 90000000"),
    ],
)
def test_full_disk(tmp_path, disk, sizes):
    """
    On a full disk jobs can be cancelled, because the store has reserved room for this.

    New jobs are refused until there is room again. This holds even if the log has many jobs that the database lacks.
    """
    first, cancelled, second, third, last, files = run_on(disk, tmp_path, FULL + BY_ITS_OWNER, sizes)
    assert "the disk is full" in first
    assert cancelled == "50"
    assert "the disk is full, and what was kept free is for cancelling: free some space" in second
    assert third.startswith("1 ")
    assert "for cancelling" in third
    assert last == "1 created"
    assert files == "['filler', 'jobs.db', 'jobs.db-lock']"


@pytest.mark.skipif(not shutil.which("unshare"), reason="unshare is not installed: util-linux has it")
def test_full_disk_beside_the_owner(tmp_path):
    """
    On a full disk, a process that is not the owner can also cancel jobs.

    The process can set new jobs as soon as there is room.
    """
    cancelled, full, last = run_on("4m", tmp_path, FULL + BY_ANOTHER, "500 400 100000 90000000")
    assert cancelled == "50"
    assert "the disk is full" in full
    assert last == "created"
