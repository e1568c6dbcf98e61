"""
Real brokers for the tests that need one. Each broker has its own folder and its own port.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from processes import end, free_port, wait_until_up

PATIENCE_S = 120.0
SECRET = "hunter2%2Fx"  # noqa: S105  as it is written in a URL
PLAIN_SECRET = "hunter2/x"  # noqa: S105  as the server knows it


def find(program, *places):
    """
    Return the path of *program*. If the program is not installed, skip the test with a reason that names it.
    """
    found = next((str(path) for place in places for path in Path("/").glob(place)), None) or shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed: apt-get install the Debian package that has it")
    return found


class Server:
    """
    The process of a broker. A `with` statement starts and ends it, and also ends it if the start fails.
    """

    def __init__(self, command, *, port, env=None, folder):
        self.port = port
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            environment = {**os.environ, **(env or {})}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)

    def __enter__(self):
        """
        Start the broker, and return once it listens.
        """
        try:
            wait_until_up(self.process, self._log, self._listens, PATIENCE_S)
        except BaseException:
            end(self.process)
            raise
        return self

    def __exit__(self, *_error):
        """
        Terminate the process, and wait for its end.
        """
        end(self.process)

    def _listens(self):
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture(scope="session")
def folder():
    """
    Return a folder with a short path, because the paths of sockets have a limit.
    """
    made = Path(tempfile.mkdtemp(prefix="tickwheel-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_server(make_redis):
    """
    Return a running Redis with a password.
    """
    return make_redis("--requirepass", PLAIN_SECRET)


@pytest.fixture(scope="session")
def nats_server(folder):
    """
    Return a running NATS with JetStream, a small `max_payload`, and a user without the right to publish on "denied".
    """
    pytest.importorskip("nats", reason="nats-py is not installed: pip install 'tickwheel[nats]'")
    port = free_port()
    config = folder / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_payload: 500000\njetstream {{ store_dir: "{folder}/jetstream" }}\n'
        f'authorization {{ users: [{{ user: tick, password: "{PLAIN_SECRET}", '
        'permissions: { publish: { deny: ["denied.>"] } } }] }\n'
    )
    with Server([find("nats-server"), "-c", str(config)], port=port, folder=folder) as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq(folder):
    """
    Return a running RabbitMQ with a user for these tests and a small `max_message_size`.

    The start takes some ten seconds.
    """
    pytest.importorskip("aio_pika", reason="aio-pika is not installed: pip install 'tickwheel[amqp]'")
    # Debian's own `rabbitmq-server` insists on root and on /var, and the program that it wraps does not.
    program = find("rabbitmq-server", "usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server")
    port, epmd_port = free_port(), free_port()
    home = folder / "rabbitmq"
    home.mkdir()
    (home / "plugins").write_text("[].\n")
    (home / "rabbit.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{port}\nmax_message_size = 500000\n"
        f"default_user = tick\ndefault_pass = {PLAIN_SECRET}\nloopback_users = none\n"
    )
    mapper = [find("epmd"), "-port", str(epmd_port), "-address", "127.0.0.1"]
    environment = {
        "HOME": str(home),
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"tick{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbit"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
    }

    def control(*arguments):
        command = [str(Path(program).with_name("rabbitmqctl")), "-n", environment["RABBITMQ_NODENAME"], *arguments]
        subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, timeout=PATIENCE_S)

    with (
        Server(mapper, port=epmd_port, folder=home),
        Server([program], port=port, env=environment, folder=home) as server,
    ):
        server.control = control
        yield server


class Loop:
    """
    An event loop in a thread, for the test's own connection to a broker.
    """

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)

    def close(self):
        """
        End the thread of the loop.
        """
        self.run(self._cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def loop():
    """
    Return a running event loop.
    """
    made = Loop()
    yield made
    made.close()


class Cut:
    """
    A receiver that can be made to fail: a proxy in front of a server causes the faults.
    """

    secret = PLAIN_SECRET

    def __init__(self, wire):
        self.wire = wire

    def payload(self, value):
        return {"value": value}

    def go_away(self):
        """
        Cut the connections.
        """
        self.wire.cut()

    def come_back(self):
        """
        Accept connections again.
        """
        self.wire.mend()

    def lose_confirms(self):
        """
        Discard the data that the server sends to the client, so that no confirmation arrives.
        """
        self.wire.swallow()

    def stall(self):
        """
        Hold back incoming data.
        """
        self.wire.stall()

    def go_on(self):
        """
        Pass on the data that was held back.
        """
        self.wire.go_on()

    def reset_all(self):
        """
        Reset each connection.
        """
        self.wire.reset_all()

    def resets(self):
        """
        Return the number of resets.
        """
        return self.wire.resets


@pytest.fixture(scope="session")
def cut():
    """
    Return the class `Cut`. The test modules get it from this fixture, because they cannot import one another.
    """
    return Cut


@pytest.fixture
def serve(tmp_path):
    """
    Return a function that starts `tickwheel serve` in the test's folder.

    The fixture stops each server by SIGINT.
    """
    with ExitStack() as stack:

        def start(*arguments, environment=None):
            command = [sys.executable, "-P", "-m", "tickwheel.cli", "serve", "--port", "0", *arguments]
            process = subprocess.Popen(
                command,
                cwd=tmp_path,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            watch = threading.Timer(PATIENCE_S, process.kill)
            watch.start()
            stack.callback(watch.cancel)
            stack.callback(process.communicate)
            stack.callback(process.send_signal, signal.SIGINT)
            return process

        yield start
