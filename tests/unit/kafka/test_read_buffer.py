"""The buffer of fetched records, before it is read."""

from __future__ import annotations

from registry.log.kafka.log_identity import LogMismatchEvidence
from registry.log.kafka.read_buffer import Chunk, ReadBuffer


def nothing() -> None:
    pass


def test_nothing_is_at_hand_while_reads_fail() -> None:
    buffer = ReadBuffer(LogMismatchEvidence(), on_room=nothing, on_wait=nothing, on_seek=nothing)
    assert buffer.read(0, 1, 1).records == []
    assert not buffer.is_at_hand(0)
    assert buffer.add(buffer.target(), Chunk(1, b"", -1))
    assert buffer.is_at_hand(0)
    buffer.fail("no permission")
    assert not buffer.is_at_hand(0)
    buffer.fail("")
    assert buffer.is_at_hand(0)
    buffer.close()
    assert not buffer.is_at_hand(0)
