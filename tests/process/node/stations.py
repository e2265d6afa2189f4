"""A node's parts without its threads: log, store, follower and writer, stepped by the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from registry.domain.commands import Command, IdempotencyKey, Outcome
from registry.domain.log_format.records import Record
from registry.domain.policies import NO_POLICIES, Policies
from registry.domain.queries.scope import Defaults
from registry.log.contract import Log
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions
from registry.node.leadership.claim import claim_log
from registry.node.replication.dedup import DedupCache
from registry.node.replication.follower import Follower
from registry.node.write.queue import Workers
from registry.node.write.writer import Writer, Writing
from registry.store.open import open_store
from registry.workers.pool import Pool
from tests.support.pending import pending

MAP = 256 << 20
WAIT_S = 30.0


class Station:
    """One node's writer over ``log``; ``outcomes`` holds the replies in the order in which they came."""

    def __init__(
        self,
        path: Path,
        log: Log,
        *,
        queue_max: int = 1000,
        timeout_s: float = 30.0,
        pool: Pool | None = None,
        policies: Policies = NO_POLICIES,
        record_principals: bool = True,
        remembers: bool = False,
        history: bool = False,
    ) -> None:
        self.name = path.name
        self.log = log
        self.store, _ = open_store(path, log.identity, 10_000, map_bytes=MAP)
        memory = DedupCache(self.store.applied) if remembers else None
        self.follower = Follower(log, self.store, memory=memory, history=history)
        self.now = 0.0
        self.outcomes: list[Outcome] = []
        # Calls that the writer has scheduled, with their delays in seconds: the test makes them.
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.before_following: Callable[[int], None] = lambda offset: None
        self.writer = Writer(
            log,
            self.store,
            Writing(
                Defaults(),
                id_batch=20,
                queue_max=queue_max,
                timeout_s=timeout_s,
                record_principals=record_principals,
            ),
            follow=self.follow,
            deliver=lambda replies: [pending.reply(outcome) for pending, outcome in replies],  # type: ignore[func-returns-value]
            now=lambda: time.time_ns() // 1_000_000,
            clock=lambda: self.now,
            memory=memory,
            workers=None if pool is None else Workers(pool, self._call_later),
            policies=lambda: policies,
        )

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((seconds, call))

    def follow(self, offset: int) -> None:
        self.before_following(offset)
        while self.store.applied < offset:
            if not self.follower.step():
                assert self.log.wait(self.store.applied, WAIT_S)

    def claim(self) -> int:
        """Become primary; return the epoch."""
        epoch = claim_log(
            self.log, self.store, node=self.name, url=f"http://{self.name}:8081",
            follow=self.follow, watching=self.follower.watching,
        )  # fmt: skip
        self.writer.open(epoch)
        return epoch

    def submit(self, command: Command, *, key: IdempotencyKey | None = None) -> None:
        self.writer.submit(pending(command, self.outcomes.append, key=key))

    def ask(self, command: Command) -> Outcome:
        """Have one command decided at once."""
        self.submit(command)
        self.writer.step()
        return self.outcomes[-1]

    def records(self) -> list[Record]:
        """Return everything in the log."""
        self.follow(end := self.log.query_end(WAIT_S))
        found: list[Record] = []
        offset = 0
        while offset < end:
            fetched = self.log.read(offset, 1000, 1 << 30)
            if fetched.next == offset:
                assert self.log.wait(offset, WAIT_S)
            found += fetched.records
            offset = fetched.next
        return found

    def close(self) -> None:
        self.follower.close()
        self.store.close()
        self.log.close()


def on_kafka(
    address: str,
    topic: str,
    *,
    transactional_id: str = "registrar.test",
    made: type[KafkaLog] = KafkaLog,
) -> KafkaLog:
    return made(
        Security(),
        address,
        topic,
        transactional_id=f"{transactional_id}.{topic}",
        append_timeout_s=20.0,
        options=TopicOptions(replication_factor=1),
    )
