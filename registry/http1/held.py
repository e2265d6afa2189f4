"""Answers that stay open: their head is sent, and the application writes to the connection when it likes.

No task waits for such an answer, so thousands of them cost little more than their connections. Flow control
is the writer's: it writes nothing while the client is ``behind``. A client that reads too slowly meanwhile is
dropped as with any other answer.
"""

from __future__ import annotations

from collections.abc import Callable

from .output import Output


def _nothing() -> None:
    """Do nothing."""


class HeldAnswer:
    """An open answer; ``ended`` is called when it is complete."""

    def __init__(self, output: Output, *, chunked: bool, ended: Callable[[], None]) -> None:
        self._output = output
        self._ended = ended
        self._open = True
        # Answers of the same framing share framed bytes.
        self.framing = chunked
        # Called when the client has read enough to be written to again; and when the connection has closed.
        self.on_drained: Callable[[], None] = _nothing
        self.on_close: Callable[[], None] = _nothing

    @property
    def behind(self) -> bool:
        """True while the client reads more slowly than it is written to."""
        return self._output.behind

    def framed(self, data: bytes) -> bytes:
        """Return data as it is written: as a chunk if the body is chunked."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.framing else data

    def write(self, framed: bytes) -> None:
        """Write framed data, unless the connection is closed."""
        if self._open:
            self._output.write(framed)

    def end(self) -> None:
        """Complete the answer and close the connection."""
        if not self._open:
            return
        self._open = False
        if self.framing:
            self._output.write(b"0\r\n\r\n")
        self._ended()
        self.on_close()

    def close(self) -> None:
        """Note that the connection has closed."""
        self._open = False
        self.on_close()
