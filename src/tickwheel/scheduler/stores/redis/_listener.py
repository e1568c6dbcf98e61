"""
Hears what the script `apply` announces to others.
"""

from __future__ import annotations

from tickwheel.scheduler.stores.redis._connections import Connection

__all__ = ["RedisSubscription"]


class RedisSubscription:
    """
    Hears one channel.
    """

    def __init__(self, connection: Connection, channel: str) -> None:
        """
        Hear on *connection*, which is closed in the end, or at once if that cannot be.
        """
        self._connection = connection
        try:
            connection.send_command("SUBSCRIBE", channel)
            connection.read_response()
        except BaseException:
            connection.disconnect()
            raise

    def fileno(self) -> int:
        number: int = self._connection._sock.fileno()  # noqa: SLF001 - the driver shows it nowhere else
        return number

    def receive(self) -> bool:
        """
        Take in what has come: whatever it is, it came from this channel.
        """
        while self._connection.can_read():
            self._connection.read_response()
        return True

    def close(self) -> None:
        self._connection.disconnect()
