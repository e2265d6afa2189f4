"""``registrar snapshot restore``: the state of a snapshot into an empty log.

The snapshot becomes a store of its own, whose rows are held against the digest; from there on it is a reseed
(:mod:`snapshots.backup.reseed_publish`): ids, versions, deletions, configs, modes and reservations stay as
they were, one that was interrupted goes on when it is run again, and the log is read back and compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from registry.config.settings import Settings
from registry.encoder.keyset_storage import carry
from registry.encoder.open import keyset_place
from registry.log.embedded.log import EmbeddedLog
from registry.log.kafka.open_topic import open_topic_for_command
from snapshots.building.task import Progress
from snapshots.building.workspace import workspace
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest

from .conflicts import clashes
from .reseed_log import Wanted
from .reseed_publish import Target, look_at_store, publish_state, topic_target
from .stores import snapshot_store


def restore(
    settings: Settings, location: Location, manifest: Manifest, progress: Progress, *, dry_run: bool
) -> None:
    """Write the snapshot's state to the configured log; with ``dry_run``, print what would be done.

    Raises :class:`snapshots.backup.reseed_publish.Refused`,
    :class:`snapshots.format.stored.UnusableSnapshot`, and the errors of the log, the store and the location.
    """
    with (
        workspace(settings.data, "restoring") as folder,
        snapshot_store(settings, location, manifest, folder, progress) as store,
    ):
        wanted = look_at_store(store, f"snapshot {manifest.id}")
        with _target(settings, make=not dry_run) as target:
            if target is None:
                print(f"{_name(settings)} does not exist; it would be made, and all of this written to it")
                return
            if manifest.keyset and not dry_run:
                # Before the records that need it, as when it was written first.
                carry(manifest.keyset.encode(), keyset_place(settings))
            if publish_state(store, wanted, target, dry_run=dry_run, clashes=clashes):
                _say_what_is_next(settings, manifest, wanted)


@contextmanager
def _target(settings: Settings, *, make: bool) -> Iterator[Target | None]:
    if settings.kafka:
        topic = open_topic_for_command(settings, make=make)
        if topic is None:
            yield None
            return
        with closing(topic):
            yield topic_target(settings, topic)._replace(anew=_another("topic", "--topic"))
        return
    folder = settings.data / "log"
    if not make and not folder.exists():
        yield None
        return
    with closing(_embedded(settings, folder)) as log:
        yield Target(
            log,
            name=_name(settings),
            larger="record_bytes_max",
            anew=_another("folder", "--data"),
            data=settings.data,
            map_bytes=settings.store_map_bytes,
        )


def _another(what: str, flag: str) -> str:
    return f"Name another {what} with {flag}: it is made, and nothing in this one is touched."


def _embedded(settings: Settings, folder: Path) -> EmbeddedLog:
    return EmbeddedLog(folder, map_bytes=settings.log_map_bytes, record_bytes_max=settings.record_bytes_max)


def _name(settings: Settings) -> str:
    return f"the topic {settings.topic}" if settings.kafka else f"the log in {settings.data / 'log'}"


def _say_what_is_next(settings: Settings, manifest: Manifest, wanted: Wanted) -> None:
    where = f"--kafka {settings.kafka} --topic {settings.topic} " if settings.kafka else ""
    print(
        f"Done: {wanted.records} records and the marker. Next:\n"
        f"  registrar serve {where}--data {settings.data} …\n"
        f"What was written to the former log after the snapshot {manifest.id}, from offset {manifest.offset} "
        "on, is not in it."
    )
