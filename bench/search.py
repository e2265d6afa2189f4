"""Rate, size and latency of the index of words: ``python -m bench.search``.

The schemas are records of 15 fields whose names are pairs of 300 words; half of the fields have a doc of
eight words. Rows and log are of this process; nothing else runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.domain.lookup.matching import Matching
from registry.domain.lookup.search import KINDS
from registry.domain.schemas.words import query_words
from registry.log.contract import Fetched
from registry.search.build import Builder
from registry.search.filler import IndexFiller
from registry.search.index import SearchIndex
from registry.store.open import open_store

FIELDS = 15
STEP = 2_000
QUERIES = ("w7", "w7Tail w9", "w250", "subject-4711", "nothing", "w1 w2 w3")


def schema(number: int) -> str:
    """Return the text of one schema."""
    random.seed(number)
    words = [f"w{each}" for each in random.choices(range(300), k=2 * FIELDS)]
    docs = [" ".join(f"d{each}" for each in random.choices(range(3000), k=8)) for _ in range(FIELDS)]
    fields = [
        {
            "name": f"{words[2 * at]}{words[2 * at + 1].title()}Tail",
            "type": ["null", "string"],
            **({"doc": docs[at]} if at % 2 else {}),
        }
        for at in range(FIELDS)
    ]
    return json.dumps({"type": "record", "name": f"Record{number}", "namespace": "bench", "fields": fields})


def record(number: int) -> Record:
    """Return the record that registers it."""
    subject = f"bench.subject-{number}-value"
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    value = {"subject": subject, "version": 1, "id": number + 1, "schema": schema(number), "deleted": False}
    return Record(number, 1_700_000_000_000 + number, json.dumps(key).encode(), json.dumps(value).encode())


class Log:
    """A log that is generated as it is read."""

    identity = "bench"

    def __init__(self, count: int) -> None:
        self.count = count

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return the next records."""
        records = [record(each) for each in range(offset, min(self.count, offset + records_max))]
        return Fetched(records, offset + len(records))


def steps(count: int) -> Iterator[range]:
    """Yield ranges of offsets that are committed together."""
    for begin in range(0, count, STEP):
        yield range(begin, min(count, begin + STEP))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where the rows are, or will be, for further runs")
    given = parser.parse_args()
    count = given.schemas
    folder = given.folder or Path(tempfile.mkdtemp(prefix="bench-search-"))
    store, _ = open_store(folder / "store", "bench", count)
    for numbers in steps(count):
        if numbers.stop <= store.applied:
            continue
        with store.view() as view:
            changes = [change for each in map(record, numbers) for change in apply(view, each)]
        store.commit(changes, numbers.stop)
    shutil.rmtree(folder / "search", ignore_errors=True)
    text_bytes = sum(len(schema(each)) for each in range(1000)) // 1000
    index = SearchIndex(folder / "search", 8 << 30, writable=True)
    index.open()
    filler = IndexFiller(Log(count), store, index)
    builder = Builder(index, store.view)
    filler.step()  # begins
    began, cpu = time.perf_counter(), time.process_time()
    while not builder.step().is_built:
        pass
    took, used = time.perf_counter() - began, time.process_time() - cpu
    assert filler.step()
    size = index.bytes_used()
    each_us = used / count * 1e6
    print(f"{count} schemas of {text_bytes} bytes: {count / took:.0f}/s, {each_us:.0f} us of CPU each")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{size / count:.0f} bytes each; at most {memory} MiB of memory, mapped pages included")
    for query in QUERIES:
        began = time.perf_counter()
        matching = Matching(query_words(query), tuple(KINDS))
        with index.view() as rows:
            assert rows is not None
            numbers = (each for each in matching.following(rows) if each is not None)
            found = [rows.subject(each) for each in itertools.islice(numbers, 20)]
        print(f"{query!r}: first {len(found)} in {(time.perf_counter() - began) * 1000:.1f} ms")
    store.close()
    index.close()
    if given.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
