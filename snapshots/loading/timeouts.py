"""Waiting for places far away for a bounded time: their clients try again and again, some for minutes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from snapshots.format.files import LocationUnreachable

ANSWER_S = 15.0
"""For a list, or a small file."""
_T = TypeVar("_T")


def in_time(ask: Callable[[], _T]) -> _T:
    """What ``ask`` answers, which goes on for nobody if it takes too long.

    Raises what it raises, and then :class:`.files.LocationUnreachable`.
    """
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="ask", daemon=True).start()
    try:
        return answer.result(ANSWER_S)
    except TimeoutError as error:
        if answer.done():  # in the last moment; or it is this that went wrong
            return answer.result()
        raise LocationUnreachable(f"there was no answer within {ANSWER_S:g} s") from error
