"""The node that counts schema ids, for Confluent's nodes and for what was before."""

from __future__ import annotations

from election.zookeeper.connection import Connection, Trouble

COUNTER = "/schema_id_counter"
"""Confluent ≤ 6.x: decimal text, the inclusive upper end of the batch of ids given out last."""


async def advance(connection: Connection, upto: int) -> int:
    """Let the counter be at least ``upto``, by compare-and-set; the value found before (0: none).

    Raises :class:`~election.zookeeper.connection.Trouble`.
    """
    while True:
        found = await connection.get(COUNTER)
        if found is None:
            if await connection.create(COUNTER, str(upto).encode()):
                return 0
            continue
        value = _number(found.data)
        if value >= upto or await connection.put(COUNTER, str(upto).encode(), found.version):
            return value


def _number(data: bytes) -> int:
    if not data.isdigit():
        raise Trouble(f"ZooKeeper's node {COUNTER} holds no number: {data[:40]!r}")
    return int(data)
