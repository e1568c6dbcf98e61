from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final, Self

__all__ = ["Link"]

_CHUNK: Final = 64 * 1024


class Link:
    """
    A TCP link from a port on loopback to *host*:*port*, which can be slow, cut or closed. It keeps the order of data.

    *latency_s* delays the data from the caller, but not the data of the answers. *jitter_s* is the maximum deviation of
    the delay, evenly distributed by the random generator *dice*.
    """

    def __init__(self, host: str, port: int, *, latency_s: float, jitter_s: float, dice: random.Random) -> None:
        self._to = (host, port)
        self._latency_s, self._jitter_s = latency_s, jitter_s
        self._dice = dice
        self._connections: set[asyncio.Task[None]] = set()
        self.is_closed = False
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.cut()

    async def cut(self) -> int:
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        return len(connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served in a task"
        self._connections.add(task)
        onward: asyncio.StreamWriter | None = None
        try:
            if not self.is_closed:
                back, onward = await asyncio.open_connection(*self._to)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass_on(reader, onward, self._latency_s, self._jitter_s))
                    group.create_task(self._pass_on(back, writer, 0.0, 0.0))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # like a real connection, it breaks on both sides
        finally:
            self._connections.discard(task)
            for end in (writer, onward):
                if end is not None:
                    end.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency_s: float, jitter_s: float
    ) -> None:
        loop = asyncio.get_running_loop()
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def arrive() -> None:
            while True:
                due_at, data = await line.get()
                await asyncio.sleep(due_at - loop.time())
                if not data:
                    with suppress(OSError):
                        writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(arrive())
            last_at = 0.0
            data = b"begin"
            while data:
                data = await reader.read(_CHUNK)
                # Data never overtakes earlier data.
                last_at = max(last_at, loop.time() + latency_s + self._dice.uniform(-jitter_s, jitter_s))
                line.put_nowait((last_at, data))
