"""The topic of encoder keysets: compacted, one partition, one record per tenant (Confluent 8.x).

There is no fencing. Only the primary writes, after it has read the topic to its end; keysets that two writers
add concurrently are merged afterwards, so no key is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress

from registry.domain.log_format.records import TENANT, Entry
from registry.log.contract import LogError, OutcomeUnknown
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.topic import TopicMissing

_ASK_S = 5.0
_WAIT_S = 0.5
_TRIES = 3
_AT_ONCE, _BYTES_AT_ONCE = 1000, 4 << 20
KEY = TENANT.encode()


class KeysetTopic:
    """A topic that stores the keyset, see :class:`.keyset.KeysetStore`.

    ``open_log`` opens the topic for a short time, and creates it if its argument is true.
    """

    def __init__(self, topic: str, open_log: Callable[[bool], KafkaLog]) -> None:
        self._topic = topic
        self._open_log = open_log
        self._next = 0
        self._last: bytes | None = None

    @property
    def name(self) -> str:
        """Name of the topic for messages."""
        return f"the topic {self._topic}"

    def make(self) -> None:
        """Create the topic if it is missing."""
        self._open_log(True).close()

    def read(self) -> bytes | None:
        """Read the topic to its end and return the keyset; ``None`` if there is none."""
        # From the beginning: the topic is tiny, and may have been recreated since.
        self._next, self._last = 0, None
        with suppress(TopicMissing), closing(self._open_log(False)) as log:
            self._news(log, log.query_end(_ASK_S))
        return self._last

    def write(self, data: bytes) -> list[bytes]:
        """Write the keyset; return those that others wrote since the last read."""
        with closing(self._open_log(True)) as log:
            for _ in range(_TRIES - 1):
                try:
                    return self._append(log, data)
                except OutcomeUnknown:
                    found = self._news(log, log.query_end(_ASK_S))
                    if data in found:
                        return [each for each in found if each != data]
            return self._append(log, data)

    def _append(self, log: KafkaLog, data: bytes) -> list[bytes]:
        log.claim()
        offset = log.append([Entry(KEY, data)])
        return [each for each in self._news(log, offset + 1) if each != data]

    def _news(self, log: KafkaLog, end: int) -> list[bytes]:
        """Return the keysets between the last position read and ``end``."""
        found: list[bytes] = []
        deadline = time.monotonic() + _ASK_S
        while self._next < end:
            fetched = log.read(self._next, _AT_ONCE, _BYTES_AT_ONCE)
            for record in fetched.records:
                if record.key == KEY:
                    self._last = record.value
                    found += [record.value] if record.value else []
            if fetched.next > self._next:
                self._next, deadline = fetched.next, time.monotonic() + _ASK_S
            elif not log.wait(self._next, _WAIT_S) and time.monotonic() > deadline:
                raise LogError(f"{self.name} ends at {end}, but cannot be read from {self._next} on")
        return found
