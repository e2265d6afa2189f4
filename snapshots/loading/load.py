"""Loading a snapshot into a new environment of the store.

Some threads read parts and check their hashes, another decompresses them, and the caller's thread writes the
rows, which bounds the pace; deltas are merged into them on the way. Either everything in the manifest is
loaded or nothing: the environment becomes complete only with its last row. The rows' digest is checked later
(:mod:`registry.store.check`).
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from registry.domain.rows.view import Change
from registry.store.create import NewStore, Origin, OutOfOrder
from registry.store.layout import State
from snapshots.format.deltas import ChangeMerger, changes_between
from snapshots.format.files import LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, Part
from snapshots.format.parts import BadPart, Row, pieces_of, read_batches, rows_of
from snapshots.format.stored import UnusableSnapshot, read_part

if TYPE_CHECKING:
    import pyarrow as pa

# Remote locations have a high latency but serve several requests at a time.
_THREADS = 3
# Bytes of parts that are read before they are needed.
_BYTES_AHEAD = 12 << 20
# Time limit for reading one part.
_PART_S = 60.0
# Decompressed batches, of up to four megabytes each. With fewer, the writer waits wherever a part is late.
_BATCHES_AHEAD = 3

# Called with each step (``begun``, ``part``, ``rows``, ``synced``), and the rows and bytes done so far.
OnStep = Callable[[str, int, int], None]
_T = TypeVar("_T")


def load(manifest: Manifest, location: Location, folder: Path, *, map_bytes: int, on_step: OnStep) -> None:
    """Create the environment ``folder``, which must not exist, from a snapshot; synced when this returns.

    Raises :class:`.stored.UnusableSnapshot`, and :class:`registry.store.layout.StoreError` if there is no
    room. Whatever is raised, nothing is left behind.
    """
    try:
        with NewStore(folder, map_bytes) as store:
            on_step("begun", 0, 0)
            rows, size = _append_all(store, manifest, location, on_step)
            on_step("rows", rows, size)
            state = State(manifest.offset, manifest.digest)
            store.finish(
                Origin(manifest.fold, manifest.log, state, manifest.at_end_ms, manifest.id, manifest.lineage)
            )
            on_step("synced", rows, size)
    except OutOfOrder as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise UnusableSnapshot(f"its rows are out of order: {error}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _append_all(store: NewStore, manifest: Manifest, location: Location, on_step: OnStep) -> tuple[int, int]:
    """Append all rows; return the number of rows and of bytes of files."""
    with (
        closing(_contents(manifest, location)) as contents,
        closing(_unpack(contents)) as unpacked,
        closing(_ahead(unpacked)) as ahead,
        closing(_apply_deltas(_report_parts(ahead, on_step), manifest, location)) as batches,
    ):
        held = sum(map(store.append, batches))
    if held != manifest.rows:
        raise UnusableSnapshot(f"its files hold {held} rows, but its manifest says {manifest.rows}")
    return held, manifest.size


def _report_parts(each: Iterator[pa.RecordBatch | Part], on_step: OnStep) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and report each part that has ended."""
    rows = size = 0
    for one in each:
        if isinstance(one, Part):
            rows, size = rows + one.rows, size + one.size
            on_step("part", rows, size)
        else:
            yield one


def _apply_deltas(
    batches: Iterator[pa.RecordBatch], manifest: Manifest, location: Location
) -> Generator[Iterable[Row]]:
    """Yield the rows of each batch with the changes of the deltas, and then those that follow."""
    if not manifest.deltas:
        yield from map(rows_of, batches)
        return
    thread = ThreadPoolExecutor(1, "deltas")

    def read(id: str, part: Part) -> bytes:
        return _in_time(part, thread.submit(_read, location, id, part))

    def changes() -> Iterator[Change]:
        try:
            yield from changes_between(manifest, read)
        except BadPart as error:
            raise UnusableSnapshot(f"a delta is damaged: {error}") from error

    def merge(batch: pa.RecordBatch) -> Iterator[Sequence[Row]]:
        for piece in pieces_of(batch):
            yield from merger.merge(list(piece))

    try:
        merger = ChangeMerger(changes())
        for batch in batches:
            yield chain.from_iterable(merge(batch))
        yield from merger.rest()
    finally:
        thread.shutdown(wait=False, cancel_futures=True)  # As for the parts.


def _contents(manifest: Manifest, location: Location) -> Generator[tuple[Part, bytes]]:
    """Yield the parts in order, each with its verified content."""
    waiting = deque(manifest.parts)
    reading: deque[tuple[Part, Future[bytes]]] = deque()
    ahead = 0
    threads = ThreadPoolExecutor(_THREADS, "read")
    try:
        while waiting or reading:
            while waiting and (not reading or ahead + waiting[0].size <= _BYTES_AHEAD):
                part = waiting.popleft()
                ahead += part.size
                reading.append((part, threads.submit(_read, location, manifest.folder, part)))
            part, content = reading.popleft()
            ahead -= part.size
            yield part, _in_time(part, content)
    finally:
        # Do not wait: a location that does not answer would block everything.
        threads.shutdown(wait=False, cancel_futures=True)


def _in_time(part: Part, content: Future[bytes]) -> bytes:
    try:
        return content.result(_PART_S)
    except TimeoutError as error:
        raise UnusableSnapshot(f"{part.name} cannot be read: it takes longer than {_PART_S:g} s") from error


def _read(location: Location, id: str, part: Part) -> bytes:
    try:
        return read_part(location, id, part)
    except LocationUnreachable as error:
        raise UnusableSnapshot(f"{part.name} cannot be read: {error}") from error


def _unpack(contents: Iterator[tuple[Part, bytes]]) -> Generator[pa.RecordBatch | Part]:
    """Yield the batches of each part, and then the part."""
    for part, content in contents:
        count, first, last = 0, b"", b""
        try:
            for batch in read_batches(content):
                if batch.num_rows:
                    keys = batch.column(0)
                    count, first, last = count + len(keys), first or keys[0].as_py(), keys[-1].as_py()
                    yield batch
        except BadPart as error:
            raise UnusableSnapshot(f"{part.name} is damaged: {error}") from error
        if (count, first, last) != (part.rows, part.first, part.last):
            raise UnusableSnapshot(f"{part.name} does not have the rows in its manifest")
        yield part


def _ahead(each: Iterator[_T]) -> Generator[_T]:
    """Yield the items of ``each``, which a thread produces a little ahead."""
    with ThreadPoolExecutor(1, "unpack") as thread:
        try:
            coming = deque(thread.submit(next, each, None) for _ in range(_BATCHES_AHEAD))
            while (one := coming.popleft().result()) is not None:
                coming.append(thread.submit(next, each, None))
                yield one
        finally:
            thread.shutdown(cancel_futures=True)
