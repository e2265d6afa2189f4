"""Reading the log in Python's workers, as nodes read it: for a Spark that runs on this machine.

Spark's connector costs twice as much, because Java handles each record several times on its way to Python. On
a cluster it is the connector that reads: executors have neither this client nor the settings' files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from registry.base.config.settings import Settings
from registry.domain.log_format.records import Record
from registry.log.contract import LogError
from snapshots.building.sources import batches_between, open_source

# What is done with the log's records: batches with the columns key, offset, ts and value.
Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_COLUMNS = pa.schema([
    ("key", pa.binary()), ("offset", pa.int64()), ("ts", pa.int64()), ("value", pa.binary()),
])  # fmt: skip


class Stretches(NamedTuple):
    """The offsets that each task reads, from the first up to the second."""

    settings: Settings
    # The identity of the log that the build began with.
    identity: str
    bounds: Sequence[tuple[int, int]]


def stretches(settings: Settings, identity: str, start: int, end: int, tasks: int) -> Stretches:
    """Return about equally many offsets for each task."""
    edges = [start + (end - start) * task // tasks for task in range(tasks + 1)]
    return Stretches(
        replace(settings, data=settings.data.absolute()), identity, list(itertools.pairwise(edges))
    )


def read(where: Stretches, step: Step, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn numbers of tasks into what ``step`` makes of the records that they read.

    Raises :class:`registry.log.contract.LogError`.
    """
    for number in itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
        with closing(open_source(where.settings).log) as log:
            if log.identity != where.identity:
                raise LogError(f"the log is now {log.identity}; the build began with {where.identity}")
            yield from step(map(_columns, batches_between(log, *where.bounds[number])))


def _columns(records: Sequence[Record]) -> pa.RecordBatch:
    offsets, times, keys, values, _ = zip(*records, strict=True) if records else ((),) * 5
    columns = (keys, offsets, times, values)
    return pa.record_batch(list(map(pa.array, columns, _COLUMNS.types)), schema=_COLUMNS)
