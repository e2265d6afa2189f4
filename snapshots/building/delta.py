"""Building a snapshot as a delta: only the rows that the newest records change, upon an earlier snapshot.

Few records need no engine. They are folded here. Of the base, only keys near those of their owners are read,
and the values of rows that they change. Counts and digest follow from those of the base, because each row
that changes is known as it was before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from registry.domain.fold.fold import apply_all, owner
from registry.domain.fold.versions import index_rows
from registry.domain.log_format.lineage import too_long
from registry.domain.log_format.records import Record
from registry.domain.rows import digest
from registry.domain.rows.layout import ENCODED, GUID, ID, REFERRER, VERSION
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import View
from snapshots.format.deltas import delta_parts
from snapshots.format.manifest import FORMAT, Delta, Manifest
from snapshots.format.stored import check_files
from snapshots.format.verify import check_delta
from snapshots.format.writer import WrittenRows, publish

from .base_view import SnapshotView
from .sources import records_between
from .task import BuildFailed, Progress, Task, WrongRows, with_keyset

ENGINE = "delta"
READING, FOLDING, WRITING = "reading the log", "folding upon the base", "writing the delta"
# Records that are folded in memory, and the bytes of their values.
RECORDS_MAX = 100_000
BYTES_MAX = 64 << 20
# Tables whose rows the fold derives from version rows.
_DERIVED = (ENCODED, GUID, ID, REFERRER)

Changes = dict[bytes, bytes | None]


class TooMuchChanged(BuildFailed):
    """The records do not fit into memory. An engine may build the snapshot."""


class DeltaLimits(NamedTuple):
    """When a snapshot is full instead of a delta."""

    # Deltas upon one full snapshot; none with 0.
    most: int
    # Bytes of a full snapshot below which deltas do not pay.
    full_bytes_min: int = 8 << 20
    # The most that deltas may take of the full snapshot's bytes: what is divided by this.
    share: int = 8


def reason_for_full(base: Manifest, task: Task, full: Manifest | None, limits: DeltaLimits) -> str:
    """Return why the next snapshot after ``base`` must be a full one; empty if it may be a delta.

    ``full``: the newest full snapshot that could be extended now.
    """
    full_bytes = base.size - base.delta_bytes
    if not limits.most:
        return "snapshots_deltas is 0"
    if full_bytes < limits.full_bytes_min:
        return f"{full_bytes} bytes are written soon"
    if len(base.deltas) >= limits.most:
        return f"{base.folder} has {len(base.deltas)} deltas"
    if base.delta_bytes * limits.share > full_bytes:
        return f"the deltas of {base.folder} have {base.delta_bytes} bytes"
    if task.end - base.offset > RECORDS_MAX:
        return f"{task.end - base.offset} offsets are more than is folded at once"
    source, now = task.source, task.clock()
    # While it still can be extended: a later full snapshot would have to read the whole log.
    if (
        full
        and full.id == base.folder
        and (why := too_long(full.at_end_ms, now, source.retention_ms // 2, source.margin_ms))
    ):
        return f"{base.folder} gets old: {why}"
    return ""


def build(task: Task, progress: Progress) -> Manifest:
    """Build a snapshot upon the task's base; see :class:`.task.Engine`.

    Raises :class:`TooMuchChanged`, :class:`.task.WrongRows`, and
    :class:`snapshots.format.stored.UnusableSnapshot` for a base that cannot be read.
    """
    assert task.base is not None
    records = _records(task, progress)
    changes, former = _fold(SnapshotView(task.location, task.base), records, progress)
    written = _write_delta(task.base, changes, former)
    delta = _write(task, changes, progress)
    about = task.about(ENGINE)
    # Asking for the end proves that the log is still the one that was opened.
    task.source.end()
    deltas = (*task.base.deltas, delta)
    check_files(task.location, task.base)
    return publish(task.location, with_keyset(task, about, written), written, task.base.folder, deltas)


def _records(task: Task, progress: Progress) -> list[Record]:
    """Return the records since the base, with those of an owner next to each other and in order."""
    records, size = list[Record](), 0
    for record in records_between(task.source.log, task.start, task.end):
        records.append(record)
        size += len(record.value or b"")
        if size > BYTES_MAX:
            raise TooMuchChanged(f"the records since {task.start} have more than {BYTES_MAX} bytes")
        progress(READING, record.offset - task.start, task.end - task.start)
    # So the files of the base are read from their beginnings to their ends.
    return sorted(records, key=lambda record: owner(record.key))


def _fold(view: View, records: Iterable[Record], progress: Progress) -> tuple[Changes, dict[bytes, bytes]]:
    """Return the rows that change, and what those were before that existed."""
    progress(FOLDING, 0, 1)
    changes: Changes = {}
    known = apply_all(OverlayView(view, changes), records, changes)
    former = dict(_former(view, known))
    progress(FOLDING, 1, 1)
    return {key: value for key, value in changes.items() if former.get(key) != value}, former


def _former(view: View, keys: Iterable[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """Yield the rows of a view with these keys, and those that are derived from them."""
    for key in sorted(keys):
        # A derived row is not looked up: it exists if the version row does, and follows from it.
        if key[:1] not in _DERIVED and (value := view.get(key)) is not None:
            yield key, value
            if key[:1] == VERSION:
                yield from index_rows(key, value)


def _write_delta(base: Manifest, changes: Changes, former: dict[bytes, bytes]) -> WrittenRows:
    """Return the parts of the base, with the counts and the digest of its rows after the changes."""
    counts, total = Counter(base.counts), base.digest
    for key, value in changes.items():
        old = former.get(key)
        counts[chr(key[0])] += (value is not None) - (old is not None)
        total = digest.digest_after_change(total, key, old, value)
    return WrittenRows(list(base.parts), {table: count for table, count in counts.items() if count}, total)


def _write(task: Task, changes: Changes, progress: Progress) -> Delta:
    """Write the changes, and read them again."""
    parts, done = [], 0
    for part, content in delta_parts(changes):
        task.location.write(f"{task.id}/{part.name}", content)
        parts.append(part)
        done += part.rows
        progress(WRITING, done, len(changes))
    delta = Delta(task.id, tuple(parts))
    for finding in check_delta(task.location, delta):
        raise WrongRows(finding)
    return delta


def is_full(manifest: Manifest) -> bool:
    """Return true for a snapshot that an engine can extend."""
    return manifest.format == FORMAT
