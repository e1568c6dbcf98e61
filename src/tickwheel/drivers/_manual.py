from __future__ import annotations

from typing import Any

from tickwheel.drivers.contract import is_stepped
from tickwheel.drivers.fork import call_after_fork
from tickwheel.timers.contract import Engine
from tickwheel.typing import NonCopyable

__all__ = ["ManualDriver"]


class ManualDriver(NonCopyable):
    """
    Fires timers when a manual clock is advanced, or `TimerWheel.fire_due()` is called. For tests and custom loops.
    """

    fires_itself = False

    def __init__(self) -> None:
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        return f"<ManualDriver {'idle' if self._engine is None else 'started'}>"

    def start(self, engine: Engine) -> None:
        if self._engine is not None:
            message = "this driver has an engine already: make a new driver for each wheel"
            raise RuntimeError(message)
        self._engine = engine
        if is_stepped(engine.clock):
            engine.clock.attach(engine)
        call_after_fork(self)

    def stop(self) -> None:
        if self._engine is not None and is_stepped(self._engine.clock):
            self._engine.clock.detach(self._engine)

    def abandon(self) -> None:
        """
        Do nothing: the manual clock keeps the pending timers of an unreferenced wheel alive.
        """

    def join(self, timeout: float | None = None) -> bool:
        return True

    def after_fork(self) -> None:
        if self._engine is not None:
            self._engine.after_fork()

    def stats(self) -> dict[str, Any]:
        return {"wakeups": 0}
