"""The log that runs in production, over simulated brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from registry.domain.log_format.records import Entry
from registry.log.contract import NO_HEADERS, Claim, OnAppended
from registry.log.kafka.connection import Connections
from registry.log.kafka.host import Host
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions

from .brokers import SERVERS, TOPIC, Brokers
from .connections import Line, Network
from .event_loop import SimulatedCondition, SimulatedLoopHost
from .world import Process, World

if TYPE_CHECKING:
    import threading

    from registry.log.kafka.broker_connection import Login

START_S = 5.0
APPEND_S = 4.8


class SimulatedLog(KafkaLog):
    """The log of one process. Opening it blocks; it raises as :class:`KafkaLog`."""

    def __init__(
        self, world: World, brokers: Brokers, process: Process, line: Line, now_ms: Callable[[], int]
    ) -> None:
        self._line = line
        self._note = lambda what, about: world.note(what, process.name, about)
        host = Host(
            Connections(cast("Login", Network(world, brokers, line, process))),
            SimulatedLoopHost(world, process),
            clock=lambda: world.now,
            boot_clock=lambda: world.now,
            condition=lambda: cast("threading.Condition", SimulatedCondition(world)),
        )
        super().__init__(
            Security(),
            SERVERS,
            TOPIC,
            transactional_id="registrar",
            append_timeout_s=APPEND_S,
            options=TopicOptions(create=False),
            start_timeout_s=START_S,
            now_ms=now_ms,
            host=host,
        )

    def claim(self) -> Claim | None:
        claim = super().claim()
        self._note("claim", claim)
        return claim

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        self._line.appending = True
        self._note("send", entries)
        try:
            return super().append(entries, cuts, headers)
        finally:
            self._line.appending = False

    def begin_append(
        self, entries: Sequence[Entry], cuts: Sequence[int], headers: Mapping[int, bytes], done: OnAppended
    ) -> None:
        def ended(result: int | Exception) -> None:
            self._line.appending = False
            done(result)

        super().begin_append(entries, cuts, headers, ended)
        self._line.appending = True
        self._note("send", entries)
