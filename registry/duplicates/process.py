"""The process that searches for duplicates: ``python -m registry.duplicates.process FD``.

It gets settings and request through the socket ``FD``, and sends the lines of the answer there. It reads the
store in slices, each with a view of its own: a long view would keep all pages that are freed meanwhile from
being used again, so the store would grow.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from registry.base.config.settings import Settings
from registry.base.processes.child_process import Parent, started_by_parent
from registry.domain.lookup.duplicates import Duplicates, TooManySchemas, find_groups
from registry.domain.queries.walks import Search
from registry.domain.rows.memory_views import MovingView
from registry.domain.rows.view import View
from registry.encoder import reader_cipher
from registry.security.authorization.permitted_view import PermittedView, Spans
from registry.store.layout import StoreError
from registry.store.reader import StoreReader
from registry.store.views import decrypt

from .contract import SearchRequest, answer_of

# Of 19: less CPU than any process that serves.
NICENESS = 10
SLICE_S = 0.05
PROGRESS_S = 0.5
TIME_MAX_S = 1800
# After which the process ends even if a single schema or a slow client holds it up.
SPARE_S = 30
# Schemas, their parsed forms, the interpreter; without the store, whose pages are shared.
MEMORY_MAX_BYTES = 1 << 30
INSTEAD = "give a subject prefix, or use `registrar duplicates`, which has no such limit"


class TooLong(Exception):
    """The search took too long."""


def main() -> int:
    """Search, and report to the parent; return the exit code."""
    parent = started_by_parent("duplicates")
    wanted: SearchRequest = parent.request
    signal.alarm(TIME_MAX_S + SPARE_S)
    with suppress(OSError):  # sandboxes may refuse
        os.nice(NICENESS)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    try:
        found = _search(parent, wanted)
    except (StoreError, TooManySchemas, TooLong, MemoryError) as error:
        parent.report(error={"error_code": 503, "message": _reason(error, wanted)})
        return 1
    for line in answer_of(found):
        parent.report(**line)
    return 0


def _reason(error: Exception, wanted: SearchRequest) -> str:
    match error:
        case TooManySchemas():
            return f"There are more than {wanted.bounds.schemas} different schemas: {INSTEAD}"
        case TooLong():
            return f"The search took longer than {TIME_MAX_S} s: {INSTEAD}"
        case MemoryError():
            return f"The search needs more than {MEMORY_MAX_BYTES >> 20} MiB: {INSTEAD}"
        case _:
            return str(error)


def _search(parent: Parent, wanted: SearchRequest) -> Duplicates:
    rows, now = MovingView(), ("", 0, 0)
    announced = 0.0

    def progress(step: str, done: int, total: int) -> None:
        nonlocal now
        now = step, done, total

    def announce() -> None:
        nonlocal announced
        if now[0] and time.monotonic() - announced >= PROGRESS_S:
            announced = time.monotonic()
            parent.report(progress=dict(zip(("step", "done", "total"), now, strict=True)))

    search = find_groups(rows, wanted.prefix, deleted=wanted.deleted, bounds=wanted.bounds, progress=progress)
    return in_slices(search, rows, parent.settings, wanted.spans, announce)


def in_slices(
    search: Search[Duplicates],
    rows: MovingView,
    settings: Settings,
    spans: Spans | None,
    between: Callable[[], object],
) -> Duplicates:
    """Return the result of a search over ``rows``, to which each slice shows the store as it is then.

    ``between`` is called after slices, while no view is open. Raises :class:`TooLong` and
    :class:`registry.store.layout.StoreError`.
    """
    store = StoreReader(settings.data / "store", settings.store_map_bytes)
    cipher = reader_cipher(settings)
    deadline = time.monotonic() + TIME_MAX_S
    while (now := time.monotonic()) < deadline:
        store.refresh()
        with decrypt(store.view(), cipher) as view:
            rows.show(_restrict(view, spans))
            try:
                next(search)
                while time.monotonic() < now + SLICE_S:
                    next(search)
            except StopIteration as end:
                found: Duplicates = end.value
                return found
            finally:
                rows.hide()
        between()
    raise TooLong


def _restrict(view: View, spans: Spans | None) -> View:
    return view if spans is None else PermittedView(view, spans)


if __name__ == "__main__":
    sys.exit(main())
