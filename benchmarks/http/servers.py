"""
The HTTP servers that are compared.

`python -m benchmarks.http.servers NAME [FILE]` prints the port, and serves until it is stopped.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn

from benchmarks.durable.file import do_nothing
from tickwheel.scheduler import AsyncScheduler
from tickwheel.service import ServiceOptions
from tickwheel.service.bodies import BatchBody, SetBody
from tickwheel.service.server import serve

__all__ = ["bare", "service"]

_SET: Final = msgspec.json.Decoder(SetBody)
_BATCH: Final = msgspec.json.Decoder(BatchBody)
_ANSWER: Final = b'{"outcome":"created","job":{"key":"0123456789abcdef","generation":100001,"due_at":1}}'


def service(path: Path) -> None:
    """
    Run the service on the file at *path*.
    """
    scheduler = AsyncScheduler(f"sqlite:///{path}")
    scheduler.handler("nothing")(do_nothing)
    serve(scheduler, ServiceOptions(port=0), lambda address: print(address.rpartition(":")[2], flush=True))


async def _application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message.get("more_body"):
            break
    (_SET if scope["method"] == "PUT" else _BATCH).decode(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": _ANSWER})


def bare() -> None:
    """
    Run an ASGI application that decodes the same bodies, stores nothing, and answers.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(_application, log_config=None, access_log=False, ws="none", lifespan="off", loop="uvloop")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "tickwheel":
        service(Path(sys.argv[2]))
    else:
        bare()
