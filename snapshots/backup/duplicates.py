"""``registrar duplicates``: equal schemas of a snapshot or a running registry."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson

from registry.base.config.settings import Settings
from registry.base.observe.progress import Steps
from registry.domain.lookup.duplicates import DuplicateGroup, find_groups
from registry.domain.model import guid_text
from registry.domain.queries.walks import run_search
from registry.domain.rows.view import View
from snapshots.building.task import Progress, workspace
from snapshots.catalogue.open import open_location
from snapshots.format import stored

from .diff_sources import RunningRegistry
from .stores import align, registry_store, snapshot_store

FOUND = 1
_HEADER = ("group", "type", "guid", "id", "subject", "version")
_NUMBERS = {"group", "id", "version"}


def print_duplicates(settings: Settings, options: dict[str, Any]) -> int:
    """Print the groups of equal schemas; return 0 if there are none, else :data:`FOUND`.

    The option ``source`` is the name of a snapshot or a :class:`.diff_sources.RunningRegistry`. Raises the
    errors of the snapshot, the registry and the store.
    """
    # Standard output is for what is found.
    bars = Steps(sys.stderr, quiet=True, bars=not options["json"])
    with bars as steps, workspace(settings.data, "searching") as folder, ExitStack() as opened:
        view = opened.enter_context(_rows(settings, options["source"], folder, steps))
        search = find_groups(view, options["subject_prefix"], deleted=options["deleted"], progress=steps)
        groups = run_search(search).groups
    print(as_json(groups) if options["json"] else as_table(groups))
    return FOUND if groups else 0


@contextmanager
def _rows(
    settings: Settings, source: RunningRegistry | str, folder: Path, progress: Progress
) -> Iterator[View]:
    """Open a view of the rows of a running registry or of a snapshot."""
    if not isinstance(source, str):
        with registry_store(settings, source, folder, progress) as store, store.view() as view:
            yield view
        return
    location = open_location(settings)
    manifest = stored.find(location, source)
    with snapshot_store(settings, location, manifest, folder, progress) as kept, kept.view() as view:
        yield view


def as_json(groups: Sequence[DuplicateGroup]) -> str:
    """Return a JSON array with one object for each group."""
    return orjson.dumps([each.as_json() for each in groups], option=orjson.OPT_INDENT_2).decode()


def as_table(groups: Sequence[DuplicateGroup]) -> str:
    """Return aligned lines, one for each registered version of a content that has an equal one."""
    if not groups:
        return "there are no duplicates"
    rows = [
        (str(number), group.schema_type, guid_text(md5), str(each.schema_id),
         each.subject.qualified, str(each.version))
        for number, group in enumerate(groups, 1)
        for md5, content in group.contents.items()
        for each in content.places
    ]  # fmt: skip
    return "\n".join(align([_HEADER, *rows], _NUMBERS))
