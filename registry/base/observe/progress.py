"""Progress that people see: bars of long work, and notices of waits."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


# Long enough for a server that is well, and less than a second.
ANNOUNCE_AFTER_S = 0.7


def print_waiting(text: str) -> None:
    """Print a remark of a command to standard error."""
    print(f"registrar: {text}", file=sys.stderr, flush=True)


@contextmanager
def announced_if_slow(text: str, announce: Callable[[str], None] = print_waiting) -> Iterator[None]:
    """Call ``announce`` with what is waited for, unless the block ends within :data:`ANNOUNCE_AFTER_S`."""
    timer = threading.Timer(ANNOUNCE_AFTER_S, announce, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# So many parts of a step are shown: by lines, and by the length of a bar.
_PRINTED, _DRAWN = 10, 200


class Steps:
    """Shows how much of each step is done, for a ``with`` block; call it with the name of the step.

    ``quiet``: show nothing where there is no terminal; ``bars``: draw where there is one. It may be called
    from any thread, one at a time.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False, bars: bool = True) -> None:
        self._stream = stream or sys.stdout
        self._quiet, self._draws = quiet, bars and self._stream.isatty()
        self._step, self._part = "", 0
        self._bars: Progress | None = None
        self._bar: TaskID | None = None

    def __call__(self, step: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` is done in this step; another name begins another step."""
        if self._bars is not None:
            self._draw(self._bars, step, done, total)
        elif not self._quiet:
            self._print(step, done, max(1, total))

    def _draw(self, bars: Progress, step: str, done: int, total: int) -> None:
        if self._bar is None or step != self._step:
            self._step, self._bar, self._part = step, bars.add_task(step), -1
        part = done * _DRAWN // max(1, total)
        if part != self._part:
            self._part = part
            bars.update(self._bar, completed=done, total=total, refresh=True)

    def _print(self, step: str, done: int, total: int) -> None:
        if step != self._step:
            self._step, self._part = step, 0
        part = min(_PRINTED, done * _PRINTED // total)
        if part > self._part:
            self._part = part
            print(f"{step}: {done} of {total}", file=self._stream, flush=True)

    def __enter__(self) -> Self:
        if self._draws:
            self._bars = _bars(self._stream)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()


def _bars(stream: TextIO) -> Progress:
    from rich.console import Console  # noqa: PLC0415 - takes longer than most commands
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(file=stream), auto_refresh=False)
