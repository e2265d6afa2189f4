"""Retries of requests that got no answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from registry.log.contract import Unreachable

from .connection import NoAnswer

# Time for one request: more than a live broker needs.
TRY_S = 3.0
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.02, 1.0

T = TypeVar("T")


class Backoff:
    """Exponential backoff with jitter."""

    def __init__(self) -> None:
        self._next_s = BACKOFF_MIN_S

    async def __call__(self) -> None:
        """Wait once."""
        await asyncio.sleep(self._next_s * random.uniform(0.7, 1.3))  # noqa: S311 (no secret)
        self._next_s = min(self._next_s * 2, BACKOFF_MAX_S)

    def reset(self) -> None:
        """Start again with a short wait."""
        self._next_s = BACKOFF_MIN_S


async def retry_until(deadline: float, attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of the first ``attempt`` that gets an answer.

    ``deadline`` is a time of the monotonic clock. Raises :class:`.contract.Unreachable`.
    """
    backoff = Backoff()
    while True:
        try:
            return await attempt()
        except NoAnswer as error:
            if time.monotonic() >= deadline:
                raise Unreachable(f"Kafka does not answer: {error}") from error
        await backoff()
