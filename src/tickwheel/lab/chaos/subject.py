from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tickwheel.errors import TickwheelError

__all__ = ["Subject", "SubjectError"]

START_S: Final = 60.0
STOP_S: Final = 30.0
_ANNOUNCED: Final = b"page"


class SubjectError(TickwheelError, RuntimeError):
    """
    The service did not start, did not stop, or could not be paused.
    """


class Subject:
    """
    The process of the service, which can be paused and killed. The service prints its address when it is ready.

    The service ends when the calling process ends, because this closes the service's standard input.

    In *command*, `{port}` is replaced by 0 for the first start, and later by the port that the service chose. *errors*
    is a file for its stderr. A SubjectError is raised if this system has no signals that pause and kill a process.
    """

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        if not hasattr(signal, "SIGSTOP"):
            message = (
                "chaos pauses and kills a service by POSIX signals, which this system lacks: run it on Linux or macOS"
            )
            raise SubjectError(message)
        self._command = command
        self._errors = errors
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        command = [part.replace("{port}", str(self._port)) for part in self._command]
        with self._errors.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=errors, stdin=asyncio.subprocess.PIPE
            )
        self._process = process
        assert process.stdout is not None, "it has a pipe"
        try:
            async with asyncio.timeout(START_S):
                line = b"begin"
                while line and not line.startswith(_ANNOUNCED):
                    line = await process.stdout.readline()
        except TimeoutError:
            line = b""
        if not line:
            await self.kill()
            said = self._errors.read_text("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
            message = f"the service did not come up: {said[0]}"
            raise SubjectError(message)
        self._port = int(line.rpartition(b":")[2].strip(b"/\n "))
        self._reading = asyncio.create_task(process.stdout.read())  # otherwise the pipe would become full

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self._ended()

    async def stop(self) -> None:
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        process = self._process
        try:
            async with asyncio.timeout(STOP_S):
                await self._ended()
        except TimeoutError:
            await self.kill()
            message = f"the service did not stop within {STOP_S:g} s of SIGTERM"
            raise SubjectError(message) from None
        if process.returncode:
            message = f"the service ended with {process.returncode} after SIGTERM"
            raise SubjectError(message)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _ended(self) -> None:
        if self._process is not None:
            await self._process.wait()
            self._process = None
        if self._reading is not None:
            await self._reading
            self._reading = None
