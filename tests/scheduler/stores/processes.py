"""
Servers that tests start in folders of their own, whatever they are of.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path


def find(program):
    """
    Return where *program* is: on the path, or where Debian keeps its newest version.
    """
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), key=lambda path: int(path.parts[4]))
    return shutil.which(program) or (str(places[-1]) if places else None)


def lent(make):
    """
    Yield what makes servers in folders of their own, by *make*, and starts them; all are stopped in the end.
    """
    servers = []

    def start(*settings, **options):
        servers.append(make(Path(tempfile.mkdtemp(prefix="tickwheel-")), *settings, **options))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
        shutil.rmtree(server.folder)


def given_to_nobody(folder):
    """
    Return how to start what refuses to run as root: as the user whose the *folder* is from now on.
    """
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
