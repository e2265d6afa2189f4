"""CPU, memory and files of all processes of a registry on this host, read from ``/proc``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import ProcessCollector

from .metrics import Sample

_PROC = Path("/proc")
# The beginnings of the modules that processes run, and the kinds of process that they are.
_KINDS = (
    ("registry.node.", "node"),
    ("registry.reader.", "reader"),
    ("registry.workers.", "worker"),
    ("snapshots.", "builder"),
)
_TOP, _OTHER = "supervisor", "other"
# How the values of the processes of one kind become one.
_MERGED: dict[str, Callable[[float, float], float]] = {
    "process_cpu_seconds": float.__add__,
    "process_resident_memory_bytes": float.__add__,
    "process_open_fds": max,
    "process_max_fds": min,
    "process_start_time_seconds": max,
}


def samples(top: int) -> Iterator[Sample]:
    """Yield the measurements of the process ``top`` and all below it, by kind of process."""
    counts: dict[str, int] = {}
    found: dict[tuple[str, str], float] = {}
    for process, kind in _tree(top):
        counts[kind] = counts.get(kind, 0) + 1
        for family in ProcessCollector(pid=lambda process=process: process, registry=None).collect():  # type: ignore[misc]
            merged = _MERGED.get(family.name)
            if merged is None:
                continue
            for sample in family.samples:
                key, value = (family.name, kind), float(sample.value)
                found[key] = merged(found[key], value) if key in found else value
    for kind, count in counts.items():
        yield Sample("registrar_processes", count, (kind,))
    for (name, kind), value in found.items():
        yield Sample(name, value, (kind,))


def _tree(top: int) -> Iterator[tuple[int, str]]:
    """Yield each process with its kind."""
    if not (_PROC / str(top)).exists():
        return
    yield top, _TOP
    waiting = [*_children(top)]
    while waiting:
        process = waiting.pop()
        yield process, _kind(process)
        waiting += _children(process)


def _children(process: int) -> Iterator[int]:
    for listed in (_PROC / str(process) / "task").glob("*/children"):
        try:
            yield from map(int, listed.read_text().split())
        except OSError:
            continue  # That thread has ended.


def _kind(process: int) -> str:
    try:
        words = (_PROC / str(process) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return _OTHER
    named = (kind for word in words for start, kind in _KINDS if word.startswith(start))
    return next(named, _OTHER)
