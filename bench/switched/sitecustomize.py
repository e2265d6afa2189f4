"""Counting of who asks, switched on and off in turns in every reader that starts with this folder in
``PYTHONPATH``.

``SIGUSR1`` begins: in each turn one of both is on for ``TURN_S`` seconds, in an order that chance decides
for each pair. Another one writes ``PID.json`` into the folder ``COUNTS``: for each pair the
microseconds of CPU that this process has used for a request without counting, and with it.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

# What takes turns, once it has begun.
_running: list[_Turns] = []


class _Turns:
    def __init__(self, service: Any) -> None:
        """``service``: what the connections of a reader share."""
        from registry.base.observe.metrics import Observed  # noqa: PLC0415 (the registry imports it later)

        self._service = service
        self._observing = {True: service.observe, False: Observed(access_log=False).__call__}
        self._order = self._sides()
        self._counting = next(self._order)
        self._pair: dict[bool, float] = {}
        self.pairs: list[tuple[float, float]] = []
        self._begin()

    def _sides(self) -> Iterator[bool]:
        while True:
            yield from random.sample((True, False), 2)

    def _begin(self) -> None:
        self._service.observe = self._observing[self._counting]
        self._requests, self._cpu_s = self._count_requests(), time.process_time()
        self._service.loop.call_later(float(os.environ["TURN_S"]), self._end)

    def _end(self) -> None:
        cpu_s, requests = time.process_time() - self._cpu_s, self._count_requests() - self._requests
        self._pair[self._counting] = cpu_s / requests * 1e6 if requests else 0.0
        if len(self._pair) == 2:
            if all(self._pair.values()):
                self.pairs.append((self._pair[False], self._pair[True]))
            self._pair = {}
        self._counting = next(self._order)
        self._begin()

    def _count_requests(self) -> int:
        return sum(
            each.count for side in self._observing.values() for each in side.__self__.tally(0).requests
        )


def _toggle(number: int, frame: FrameType | None) -> None:
    from registry.http1.service import Service  # noqa: PLC0415 (as above)

    state = Path(os.environ["COUNTS"], f"{os.getpid()}")
    if _running:
        state.with_suffix(".new").write_text(json.dumps(_running[0].pairs))
        state.with_suffix(".new").rename(state.with_suffix(".json"))
        return
    _running.extend(_Turns(each) for each in gc.get_objects() if isinstance(each, Service))


signal.signal(signal.SIGUSR1, _toggle)
