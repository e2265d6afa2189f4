"""Fold a log of synthetic records into an empty store and print the rate, the sizes and the memory.

    python bench/fold.py [--records 200000] [--schema-bytes 400] [--cores 2] [--history] [--kafka]
                         [--folder /tmp]

With ``--history`` and one core the history is kept too, as by a node at the log's end. With ``--kafka`` the
log is a topic of a broker that is started for it and competes for the cores. Records are first versions under
as many subjects, in an order that follows neither names nor ids, which is the worst for the store's pages.
The log is built first, outside the measured time.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from deploy.local.broker import Broker
from registry.domain.log_format.records import Entry
from registry.log.contract import Log
from registry.log.embedded.log import EmbeddedLog
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.node.replication.follower import Follower
from registry.store.layout import FAR_BEHIND
from registry.store.open import open_store


def entry(number: int, records: int, schema_bytes: int) -> Entry:
    """Return a version record as Confluent writes it."""
    name = f"team-{number * 7919 % records:07d}.orders-value"
    doc = hashlib.shake_128(number.to_bytes(4, "big")).hexdigest(max(1, (schema_bytes - 90) // 2))
    field = {"name": "a", "type": "string"}
    schema = {"type": "record", "name": f"R{number}", "doc": doc, "fields": [field]}
    key = {"keytype": "SCHEMA", "subject": name, "version": 1, "magic": 1}
    value = {
        "subject": name, "version": 1, "id": number + 1, "schema": orjson.dumps(schema).decode(),
        "deleted": False,
    }  # fmt: skip
    return Entry(orjson.dumps(key), orjson.dumps(value))


def build(log: Log, records: int, schema_bytes: int) -> None:
    """Append this many records, in batches that Kafka accepts."""
    log.claim()
    for first in range(0, records, 1000):
        last = min(first + 1000, records)
        log.append([entry(number, records, schema_bytes) for number in range(first, last)])


@contextmanager
def kafka_log(folder: Path) -> Iterator[Log]:
    """Yield a topic of a new broker."""
    broker = Broker(folder / "kafka").start().wait()
    try:
        log = KafkaLog(
            Security(), broker.address, "_schemas", transactional_id="bench", append_timeout_s=30.0
        )
        yield log
        log.close()
    finally:
        broker.stop()


@contextmanager
def embedded_log(folder: Path) -> Iterator[Log]:
    """Yield an embedded log."""
    log = EmbeddedLog(folder / "log")
    yield log
    log.close()


def resident(kind: str, pid: int | str = "self") -> int:
    """Return MB of this process' memory: RssAnon is its own, RssFile is mapped pages."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) >> 10
    return 0


def cpu_of_children() -> float:
    """Return the CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fold(log: Log, options: argparse.Namespace, folder: Path) -> None:
    """Fold the log, open the store again, and compute its digest."""
    began = time.perf_counter()
    build(log, options.records, options.schema_bytes)
    print(f"log: {log.query_end(10.0)} records appended in {time.perf_counter() - began:.1f} s")
    store, _ = open_store(folder / "store", log.identity, log.end())
    follower = Follower(
        log, store, far_behind=FAR_BEHIND if options.cores == 2 else None, history=options.history
    )
    children = cpu_of_children()
    began, cpu, own, other = time.perf_counter(), time.process_time(), 0, 0
    while store.applied < log.end():
        if not follower.step():
            log.wait(follower.position, 1.0)
        own = max(own, resident("RssAnon"))
        if follower.second is not None:
            other = max(other, resident("RssAnon", follower.second))
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    stat = store.stat()
    print(f"fold: {took:.1f} s, {options.records / took:,.0f} records/s on {options.cores} cores")
    print(f"      {cpu / options.records * 1e6:.1f} µs of this process' CPU for a record")
    print(f"store: {stat.rows} rows, {stat.bytes_used >> 20} MB")
    print(f"memory: {own} MB own at most, {other} MB of the second's, {resident('RssFile')} MB mapped")
    follower.close()
    second = (cpu_of_children() - children) / options.records * 1e6
    print(f"      {second:.1f} µs of the second process' CPU for a record")
    store.close()
    began = time.perf_counter()
    store, messages = open_store(folder / "store", log.identity, log.end())
    print(f"store reopened in {time.perf_counter() - began:.2f} s {messages}")
    began = time.perf_counter()
    while not store.verify_step(10_000):
        pass
    print(f"digest from scratch: {time.perf_counter() - began:.1f} s")
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--schema-bytes", type=int, default=400)
    parser.add_argument("--cores", type=int, choices=(1, 2), default=2)
    parser.add_argument("--history", action="store_true")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        with (kafka_log if options.kafka else embedded_log)(folder) as log:
            fold(log, options, folder)
    finally:
        shutil.rmtree(folder)
        os.sync()


if __name__ == "__main__":
    main()
