"""How far a command is: for each of its steps a bar where somebody watches, else a line for each tenth."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from registry.observe.progress_bar import Shown


class Steps:
    """A :class:`.task.Progress` that shows, for a ``with`` block."""

    def __init__(self) -> None:
        self._step = ""
        self._shown: Shown | None = None

    def __call__(self, step: str, done: int, total: int) -> None:
        """``done`` of ``total`` in this step."""
        if self._shown is None or step != self._step:
            self._end()
            self._step, self._shown = step, Shown(step, total)
        self._shown(done)

    def _end(self) -> None:
        if self._shown is not None:
            self._shown.__exit__(None, None, None)
            self._shown = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
