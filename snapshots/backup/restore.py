"""``registrar snapshot restore``: writing the state of a snapshot into an empty log.

The snapshot is loaded into a temporary store, whose rows are checked against the digest. From there on it is
a reseed (:mod:`snapshots.backup.reseed_publish`): ids, versions, deletions, configs, modes and reservations
stay unchanged, an interrupted run resumes when it is run again, and the log is read back and compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from registry.base.config.settings import Settings
from registry.domain.queries import versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan
from registry.encoder import keyset_store
from registry.encoder.keyset import carry
from registry.log.embedded.log import EmbeddedLog
from registry.log.kafka.open_topic import open_topic_for_command
from snapshots.building.task import Progress, workspace
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest

from .reseed_log import ReseedPlan
from .reseed_publish import ReseedTarget, look_at_store, publish_state, topic_target
from .stores import snapshot_store

# Conflicts of one kind that are printed.
_SHOWN = 10


def restore(
    settings: Settings,
    location: Location,
    manifest: Manifest,
    progress: Progress,
    *,
    dry_run: bool,
    empty: bool,
    flags: str = "",
) -> None:
    """Write the snapshot's state to the configured log; with ``dry_run``, print what would be done.

    An empty state is only written if ``empty`` is true. ``flags``: those of the settings, for the commands
    that are printed at the end.

    Raises :class:`snapshots.backup.reseed_publish.ReseedRefused`,
    :class:`snapshots.format.stored.UnusableSnapshot`, and the errors of the log, the store and the location.
    """
    with (
        workspace(settings.data, "restoring") as folder,
        snapshot_store(settings, location, manifest, folder, progress) as store,
    ):
        plan = look_at_store(store, f"snapshot {manifest.id}", empty=empty)
        with _target(settings, make=not dry_run) as target:
            if target is None:
                print(f"{_name(settings)} does not exist; it would be created and all of this written")
                return
            if manifest.keyset and not dry_run:
                # The keyset must be there before the records that need it.
                carry(manifest.keyset.encode(), keyset_store(settings))
            if publish_state(store, plan, target, dry_run=dry_run, conflicts=conflicts):
                _say_what_is_next(manifest, plan, flags)


@contextmanager
def _target(settings: Settings, *, make: bool) -> Iterator[ReseedTarget | None]:
    if settings.kafka:
        topic = open_topic_for_command(settings, make=make)
        if topic is None:
            yield None
            return
        with closing(topic):
            yield topic_target(settings, topic)._replace(advice=_another("topic", "--topic"))
        return
    folder = settings.data / "log"
    if not make and not folder.exists():
        yield None
        return
    with closing(_open_embedded(settings, folder)) as log:
        yield ReseedTarget(
            log,
            name=_name(settings),
            larger="record_bytes_max",
            advice=_another("folder", "--data"),
            data=settings.data,
            map_bytes=settings.store_map_bytes,
        )


def _another(what: str, flag: str) -> str:
    return f"Choose another {what} with {flag}: it is created, and this one is left unchanged."


def _open_embedded(settings: Settings, folder: Path) -> EmbeddedLog:
    return EmbeddedLog(folder, map_bytes=settings.log_map_bytes, record_bytes_max=settings.record_bytes_max)


def _name(settings: Settings) -> str:
    return f"the topic {settings.topic}" if settings.kafka else f"the log in {settings.data / 'log'}"


def _say_what_is_next(manifest: Manifest, plan: ReseedPlan, flags: str) -> None:
    print(
        f"Done: {plan.records} records were restored. Next, start the registry:\n"
        f"  registrar serve{flags}\n"
        "Its digest differs from the snapshot's, because the timestamps of versions are new. To prove that "
        "the contents are the same, compare them, with the address of the registry:\n"
        f"  registrar snapshot diff {manifest.id} http://127.0.0.1:8081{flags}\n"
        f"What was written after the snapshot {manifest.id} (from offset {manifest.offset} of the former log "
        "on) is not in it."
    )


def conflicts(old: View, new: View) -> Iterator[str]:
    """Yield the first conflicts of each kind, and the number of others; ``old`` is the snapshot's state."""
    yield from _first("version {} is another schema there", _other_versions(old, new))
    yield from _first("id {} is another schema there", _other_ids(old, new))
    yield from _first("the config of {} is another there", _other_scopes(old, new, layout.CONFIG))
    yield from _first("the mode of {} is another there", _other_scopes(old, new, layout.MODE))


def _first(words: str, found: Iterator[str]) -> Iterator[str]:
    yield from (words.format(each) for each in islice(found, _SHOWN))
    more = sum(1 for _ in found)
    if more:
        yield f"{words.format('…')}: {more} more of these"


def _all_versions(view: View) -> Iterator[tuple[bytes, Registered]]:
    for key, _ in scan(view, layout.VERSION):
        found = versions.at(view, key)
        if found is not None:
            yield key, found


def _other_versions(old: View, new: View) -> Iterator[str]:
    for key, mine in _all_versions(old):
        theirs = versions.at(new, key)
        if theirs is not None and (theirs.row.schema_id, theirs.row.md5) != (
            mine.row.schema_id,
            mine.row.md5,
        ):
            yield f"{mine.version} of {mine.subject.qualified!r}"


def _other_ids(old: View, new: View) -> Iterator[str]:
    seen: set[tuple[str, int]] = set()
    for _, mine in _all_versions(old):
        name = (mine.subject.context, mine.row.schema_id)
        theirs = versions.by_id(new, *name)
        if theirs is not None and theirs.row.md5 != mine.row.md5 and name not in seen:
            seen.add(name)
            yield f"{mine.row.schema_id} in the context {mine.subject.context}"


def _other_scopes(old: View, new: View, table: bytes) -> Iterator[str]:
    for key, value in scan(old, table):
        if new.get(key) not in (None, value):
            yield repr(layout.scope_of(key, value).qualified)
