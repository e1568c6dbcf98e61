"""
Three nodes behind nginx, as defined by the files in `deploy/`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
from pathlib import Path

import yaml
from processes import find, free_port

FOLDER = Path(__file__).parents[2] / "deploy"
STOP_S = 60

SITE = (FOLDER / "nginx.conf").read_text("utf-8")
UPSTREAM = re.compile(r"server ([\d.]+):(\d+)")
CONTAINER = (FOLDER / "Containerfile").read_text("utf-8")
ENTRYPOINT = json.loads(re.search(r"^ENTRYPOINT (.*)$", CONTAINER, re.MULTILINE)[1])
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
NODES = [each for each in COMPOSE["services"].values() if "build" in each]
KUBERNETES = {each["kind"]: each for each in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text("utf-8"))}


def node_start(values):
    """
    Return the arguments and the environment of a node's container.

    *values* has the values of the container's variables.
    """
    program, verb, *arguments = ENTRYPOINT
    assert (Path(program).name, verb) == ("tickwheel", "serve")
    (names,) = {tuple(node["environment"]) for node in NODES}
    return arguments, {name: values[name] for name in names}


class Proxy:
    """
    The nginx of the deployment.

    In its configuration, the addresses of the nodes are replaced by ports of this machine.
    """

    def __init__(self, folder, certificate, ports, token):
        self.cert, key = certificate
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.token = token
        left = iter(ports)
        site = SITE.replace("listen 443", f"listen 127.0.0.1:{self.port}")
        site = site.replace("/etc/nginx/tls/tickwheel.crt", self.cert).replace("/etc/nginx/tls/tickwheel.key", key)
        site = UPSTREAM.sub(lambda _: f"server 127.0.0.1:{next(left)}", site)
        assert next(left, None) is None, "the site names as many nodes as there are"
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
        user = "" if os.geteuid() else "user root; "  # root owns the folder
        head = f"{user}daemon off; pid {folder / 'pid'}; error_log stderr; events {{}}"
        (conf := folder / "nginx.conf").write_text(f"{head}\nhttp {{ access_log off; {folders}\n{site} }}")
        command = [find("nginx"), "-e", "stderr", "-p", folder, "-c", conf]
        self._context = ssl.create_default_context(cafile=self.cert)
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    @contextlib.contextmanager
    def __call__(self, method, path, body=None, key=None):
        """
        Send a request with *key* as its Idempotency-Key, and yield the answer.
        """
        headers = {"authorization": f"Bearer {self.token}", "origin": self.url}
        headers |= {} if key is None else {"idempotency-key": key}
        headers |= {"content-type": "application/json"} if body else {}
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self._context)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            with connection.getresponse() as answer:
                yield answer

    def is_ready(self):
        """
        Return True if the proxy reports that a node is ready.
        """
        try:
            with self("GET", "/readyz") as answer:
                return answer.status == 200
        except OSError:
            assert self._process.poll() is None, self._process.stderr.read()
            return False

    def close(self):
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
