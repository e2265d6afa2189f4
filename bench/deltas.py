"""Count the bytes that builds of few records move upon a large snapshot; nothing is timed but CPU.

    python bench/deltas.py [--schemas 1300000] [--records 10000] [--builds 1] [--schema-bytes 400]
                           [--folder /tmp]

Half of the further records are first versions under new subjects, half are next versions of any subjects, so
the keys of all parts with subjects are read. The log is made on demand, so only the full snapshot takes long.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench.fold import entry
from registry.base.config.settings import Settings
from registry.domain.log_format import records, values
from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Entry, Record
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.log.contract import Fetched
from registry.log.embedded.log import now_ms
from snapshots.building import delta, local
from snapshots.building.sources import LogSource
from snapshots.building.task import Task, silent
from snapshots.format.files import LocalFolder
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, new_id

DAY_MS = 86_400_000
# The number of versions that no subject of the log has.
FURTHER_VERSION = 1_000


class MadeLog:
    """A log whose records are made when they are read."""

    identity = "bench"

    def __init__(self, schemas: int, further: int, schema_bytes: int) -> None:
        self._schemas, self._bytes = schemas, schema_bytes
        chance = random.Random(7)
        self._further = [self._make_entry(chance, schemas + number) for number in range(further)]

    def _make_entry(self, chance: random.Random, number: int) -> Entry:
        name, version = f"new-{chance.getrandbits(40):x}", 1
        if number % 2:
            key = entry(chance.randrange(self._schemas), self._schemas, self._bytes).key
            name, version = orjson.loads(key or b"")["subject"], FURTHER_VERSION + number
        subject, text = Subject(DEFAULT_CONTEXT, name), f'{{"type":"record","name":"R{number}","fields":[]}}'
        value = values.schema_value(subject, version, number + 1, text)
        return Entry(records.schema_key(subject, version), value)

    def query_end(self, timeout_s: float) -> int:
        return self._schemas + len(self._further)

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        end = min(offset + records_max, self.query_end(0))
        return Fetched([Record(each, each, *self._entry(each)) for each in range(offset, end)], end)

    def _entry(self, number: int) -> Entry:
        if number < self._schemas:
            return entry(number, self._schemas, self._bytes)
        return self._further[number - self._schemas]

    def divergence(self, lineage: Lineage) -> int | None:
        return None

    def wait(self, offset: int, timeout_s: float) -> bool:
        return offset < self.query_end(0)

    def close(self) -> None:
        pass


class CountedFolder(LocalFolder):
    """A folder that counts what is read and written."""

    read_bytes = written_bytes = 0

    def read(self, path: str, most: int) -> bytes:
        content = super().read(path, most)
        self.read_bytes += len(content)
        return content

    def read_range(self, path: str, begin: int, length: int) -> bytes:
        content = super().read_range(path, begin, length)
        self.read_bytes += len(content)
        return content

    def write(self, path: str, data: bytes) -> None:
        self.written_bytes += len(data)
        super().write(path, data)


def run(given: argparse.Namespace, folder: Path) -> None:
    """Build a full snapshot and the deltas, and print what each has moved."""
    source = LogSource(MadeLog(given.schemas, given.records, given.schema_bytes), DAY_MS, 7 * DAY_MS, 1000)
    settings, made = Settings(data=folder), None
    for number in range(given.builds + 1):
        files = CountedFolder(folder / "snapshots")
        now, end = now_ms(), given.schemas + given.records * number // given.builds
        task = Task(
            id=new_id(end, now, number), settings=settings, source=source, end=end, base=made,
            location=Location(str(folder / "snapshots"), files), at_end_ms=now, began_ms=now,
        )  # fmt: skip
        begun = time.process_time()
        made = (delta if made else local).build(task, silent)
        print(line(made, files, time.process_time() - begun))


def line(made: Manifest, files: CountedFolder, cpu_s: float) -> str:
    """Return a line about one build."""
    moved = f"read {files.read_bytes:,}, wrote {files.written_bytes:,} bytes in {cpu_s:.1f} s of CPU"
    held = f"{made.rows:,} rows, {made.size:,} bytes, {len(made.deltas)} deltas"
    return f"{made.engine} up to {made.offset:,}: {moved}; {held}"


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schemas", type=int, default=1_300_000)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--builds", type=int, default=1)
    parser.add_argument("--schema-bytes", type=int, default=400)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        run(given, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
