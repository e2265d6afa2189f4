"""Fold a log of synthetic records into an empty store and print the rate, the sizes and the memory.

    python bench/fold.py [--records 200000] [--schema-bytes 400] [--cores 2] [--folder /tmp]

Records are first versions under as many subjects, in an order that follows neither names nor ids, which is
the worst for the store's pages. The log is built first, outside the measured time.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

import orjson

from registry.domain.records import Entry
from registry.log.embedded import EmbeddedLog
from registry.node.follower import FAR_BEHIND, Follower
from registry.store.opening import open_store


def entry(number: int, records: int, schema_bytes: int) -> Entry:
    """A version record as Confluent writes it."""
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


def build(log: EmbeddedLog, records: int, schema_bytes: int) -> None:
    for first in range(0, records, 10_000):
        last = min(first + 10_000, records)
        log.append([entry(number, records, schema_bytes) for number in range(first, last)])


def resident(kind: str) -> int:
    """MB of this process' memory: RssAnon is its own, RssFile is mapped pages."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) >> 10
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--schema-bytes", type=int, default=400)
    parser.add_argument("--cores", type=int, choices=(1, 2), default=2)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        log = EmbeddedLog(folder / "log")
        build(log, options.records, options.schema_bytes)
        print(f"log: {options.records} records, {(folder / 'log' / 'data.mdb').stat().st_size >> 20} MB")
        store, _ = open_store(folder / "store", log.identity, log.end())
        follower = Follower(log, store, far_behind=FAR_BEHIND if options.cores == 2 else None)
        begun, cpu, own = time.perf_counter(), time.process_time(), 0
        while follower.step():
            own = max(own, resident("RssAnon"))
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
        stat = store.stat()
        print(f"fold: {took:.1f} s, {options.records / took:,.0f} records/s on {options.cores} cores")
        print(f"      {cpu / options.records * 1e6:.1f} µs of this process' CPU for a record")
        print(f"store: {stat.rows} rows, {stat.bytes_used >> 20} MB")
        print(f"memory: {own} MB own at most, {resident('RssFile')} MB mapped")
        follower.close()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"second process: {children.ru_utime + children.ru_stime:.1f} s CPU")
        store.close()
        log.close()
        begun = time.perf_counter()
        log = EmbeddedLog(folder / "log")
        opened = time.perf_counter()
        store, messages = open_store(folder / "store", log.identity, log.end())
        print(f"reopened: log {opened - begun:.2f} s, store {time.perf_counter() - opened:.2f} s {messages}")
        begun = time.perf_counter()
        while not store.verify_step(10_000):
            pass
        print(f"digest from scratch: {time.perf_counter() - begun:.1f} s")
        store.close()
        log.close()
    finally:
        shutil.rmtree(folder)
        os.sync()


if __name__ == "__main__":
    main()
