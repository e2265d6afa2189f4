"""The znode that counts schema ids, for Confluent's nodes and for ids assigned before a migration."""

from __future__ import annotations

from election.zookeeper.connection import Connection, ZooKeeperError

# Confluent ≤ 6.x: decimal text, the inclusive upper end of the last batch of ids.
COUNTER = "/schema_id_counter"


async def advance(connection: Connection, upto: int) -> int:
    """Raise the counter to at least ``upto`` by compare-and-set; return its former value (0: none).

    Raises :class:`~election.zookeeper.connection.ZooKeeperError`.
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
        raise ZooKeeperError(f"ZooKeeper's node {COUNTER} holds no number: {data[:40]!r}")
    return int(data)
