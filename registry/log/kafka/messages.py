"""Reading of messages from any partition of any topic, with their headers; nothing is followed or kept.

Records of transactions that were aborted, or that are not over yet, are read like all others.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.memory_records import MemoryRecords

from registry.log.contract import LogError, Unreachable

from . import requests
from .broker_connection import login_with
from .connection import Connections, NoAnswer, retry_until
from .partition import Partition
from .record_batches import next_offset, records_of
from .requests import EARLIEST, LATEST, Broker, Code, code_name
from .security import Security

_BYTES: Final = 1 << 20
_WAIT_MS: Final = 500


class Message(NamedTuple):
    """A record of any topic."""

    offset: int
    # Milliseconds since the epoch.
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class _Place(NamedTuple):
    """A partition as the brokers describe it."""

    topic_id: bytes
    broker: Broker
    epoch: int


class Messages:
    """The messages of one partition. Methods raise :class:`registry.log.contract.LogError`."""

    def __init__(self, partition: Partition, number: int, timeout_s: float) -> None:
        self._partition = partition
        self._number = number
        self._timeout_s = timeout_s
        self._name = f"partition {number} of topic {partition.topic}"

    async def bounds(self) -> tuple[int, int]:
        """Return the first offset, and the one after the last message."""
        return await self._offset(EARLIEST), await self._offset(LATEST)

    async def read(self, offset: int, end: int) -> AsyncIterator[Message]:
        """Yield the messages from ``offset`` up to ``end``; compaction may have removed some."""
        while offset < end:
            data = await self._fetch(offset)
            for message in _messages(data, offset):
                if message.offset >= end:
                    return
                yield message
            after = next_offset(data, offset)
            if after <= offset:
                raise Unreachable(f"{self._name} has no complete batch at offset {offset}")
            offset = after

    async def _offset(self, at: int) -> int:
        async def ask() -> int:
            place = await self._place()
            request = requests.ListOffsets(self._partition.topic, at, place.epoch, partition=self._number)
            code, offset = requests.listed_offset(await self._send(place, request))
            self._check(code, "Describe")
            return offset

        return await retry_until(self._deadline(), ask)

    async def _fetch(self, offset: int) -> bytes:
        async def ask() -> bytes:
            place = await self._place()
            request = requests.Fetch(
                self._partition.topic, place.topic_id, offset,
                epoch=place.epoch, wait_ms=_WAIT_MS, bytes_max=_BYTES, partition=self._number,
            )  # fmt: skip
            answer = requests.read_fetch(await self._send(place, request))
            if answer.code == Code.OFFSET_OUT_OF_RANGE:
                raise LogError(f"{self._name} has no offset {offset}")
            self._check(answer.code, "Read")
            return answer.data

        return await retry_until(self._deadline(), ask)

    async def _place(self) -> _Place:
        request = requests.Metadata(self._partition.topic)
        return await self._partition.send_to_any(request, self._describe)

    def _describe(self, answer: Any) -> _Place:
        brokers = {node: Broker(node, host, port) for node, host, port, *_ in answer.brokers}
        code, _, topic_id, _, partitions, *_ = answer.topics[0]
        if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise LogError(f"the topic {self._partition.topic} does not exist")
        if code == Code.INVALID_TOPIC:
            raise LogError(f"{self._partition.topic!r} is not a valid topic name")
        self._check(code, "Describe")
        for _, number, node, epoch, *_ in partitions:
            if number == self._number and node in brokers:
                return _Place(topic_id, brokers[node], epoch)
            if number == self._number:
                raise NoAnswer(f"{self._name} has no partition leader now", sent=False)
        raise LogError(f"the topic {self._partition.topic} has {len(partitions)} partitions, counted from 0")

    async def _send(self, place: _Place, request: Any) -> Any:
        return await self._partition.send_to(place.broker.host, place.broker.port, request)

    def _check(self, code: int, operation: str) -> None:
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            self._partition.raise_denied(code, operation)
        if code != Code.NONE:
            raise NoAnswer(f"{self._name}: {code_name(code)}", sent=False)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s


@asynccontextmanager
async def open_messages(
    security: Security, servers: str, topic: str, number: int, *, timeout_s: float
) -> AsyncIterator[Messages]:
    """Open a partition for an ``async with`` block; ``timeout_s`` bounds each step."""
    connections = Connections(login_with(security))
    try:
        yield Messages(Partition(connections, servers, topic), number, timeout_s)
    finally:
        await connections.close()


def _messages(data: bytes, offset: int) -> Iterator[Message]:
    """Yield the messages in fetched batches from ``offset`` on, without transaction markers."""
    batches = MemoryRecords(data)
    at = offset
    try:
        while (batch := batches.next_batch()) is not None:
            if not batch.validate_crc():
                raise LogError(f"a batch at or after offset {at} has a wrong checksum")
            if batch.is_control_batch:
                continue
            for each in records_of(batch, data):
                at = each.offset
                if at >= offset:
                    yield Message(at, each.timestamp, each.key, each.value, tuple(each.headers))
    except (NotImplementedError, UnsupportedCodecError) as error:
        raise LogError(
            f"the batch at or after offset {at} has an unsupported compression: {error}"
        ) from error
    except (CorruptRecordException, ValueError, IndexError, RuntimeError, OSError, EOFError) as error:
        raise LogError(f"a batch at or after offset {at} cannot be read: {error!r}") from error
