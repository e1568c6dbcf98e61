"""
Nodes that tests can lose.

A node that is started again keeps its port.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys

from processes import PATIENCE_S, free_port, wait_until_up


class Node:
    """
    One `tickwheel serve` in a folder, or another *program* that takes a port and the URL of a store.
    """

    def __init__(self, folder, store, *arguments, environment=(), program=None):
        folder.mkdir()
        self.folder, self.port = folder, free_port()
        served = ["-m", "tickwheel.cli", "serve", "--port", str(self.port), "--store", store, *arguments]
        self._command = [sys.executable, *(served if program is None else [program, str(self.port), store])]
        self._environment = {**os.environ, "TICKWHEEL_STOP_TIMEOUT": "1.5", **dict(environment)}
        self._process = None

    def start(self):
        """
        Start the node, and wait until it answers.
        """
        log = self.folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=output, cwd=self.folder, env=self._environment
            )
        wait_until_up(self._process, log, self._answers)

    def stop(self, how=signal.SIGINT):
        """
        Stop the node.

        With SIGINT it releases its leases. With SIGKILL it does not.
        """
        if self._process is not None:
            self._process.send_signal(how)
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(PATIENCE_S)
            self._process = None

    def signal(self, how):
        """
        Send a signal to the node, and do not wait for its effect.
        """
        self._process.send_signal(how)

    def ask(self, method, path, body=None):
        """
        Send a request, and return the document in the answer.
        """
        status, text = self._ask(method, path, body)
        assert status < 400, text
        return json.loads(text)

    def _answers(self):
        try:
            return self._ask("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def _ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {} if body is None else {"content-type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
