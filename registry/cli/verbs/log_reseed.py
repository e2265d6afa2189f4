"""``registrar log reseed``: writing the state of a store into an empty topic.

Everything is checked before anything is written: the store's digest, the topic's content, and whether the
topic accepts the largest record. Afterwards the topic is folded into a temporary store and compared row by
row.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from registry.base.config.settings import Settings
from registry.cli.setting_flags import with_same_settings
from registry.domain.queries.sensitive_metadata import has_encoded
from registry.encoder import keyset_store
from registry.encoder.keyset import KeysetFile, carry
from registry.log.contract import LogError
from registry.log.kafka.open_topic import open_topic_for_command
from registry.store.examination import find
from registry.store.layout import StoreError
from registry.store.offline import OfflineStore
from snapshots.backup.reseed_log import ReseedPlan
from snapshots.backup.reseed_publish import ReseedRefused, look_at_store, publish_state, topic_target


def log_reseed(settings: Settings, *, dry_run: bool, name: str, empty: bool) -> int:
    """Run the command; return 0 if the topic holds the whole state (or, for a dry run, could), else 1.

    ``name``: of a store other than the current one. ``empty``: also write an empty state.
    """
    try:
        _log_reseed(settings, dry_run=dry_run, name=name, empty=empty)
    except (ReseedRefused, StoreError, LogError, OSError) as error:
        print(f"registrar: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nregistrar: interrupted; run the same command again to resume", file=sys.stderr)
        raise
    return 0


def _log_reseed(settings: Settings, *, dry_run: bool, name: str, empty: bool) -> None:
    if not settings.kafka:
        raise ReseedRefused("log reseed writes to a Kafka topic: give --kafka HOST:PORT")
    with OfflineStore(settings.data / "store", name) as store:
        if not name:
            _check_that_it_is_the_only_one(store)
        plan = look_at_store(store, f"store {store.folder}", empty=empty)
        log = open_topic_for_command(settings, make=not dry_run)
        if log is None:
            print(f"the topic {settings.topic} does not exist; it would be created and all of this written")
            return
        with closing(log):
            if not dry_run:
                _carry_keyset(settings, store)
            if publish_state(store, plan, topic_target(settings, log), dry_run=dry_run):
                _say_what_is_next(plan, store.state.applied)


def _check_that_it_is_the_only_one(store: OfflineStore) -> None:
    """Raise :class:`ReseedRefused` if the current store may not be the one that holds most."""
    others = [_with_offset(each) for each in store.others()]
    if others:
        raise ReseedRefused(
            f"{store.folder.parent} holds other stores than the current {store.folder.name} (up to offset "
            f"{store.state.applied}): {', '.join(others)}. Name the one to write with --store"
        )
    if not store.is_complete:
        raise ReseedRefused(
            f"the store {store.folder} was not yet read to the end of its log, so it lacks records; to write "
            f"what it has, give --store {store.folder.name}"
        )


def _with_offset(folder: Path) -> str:
    found = find(folder)
    return f"{folder.name} ({'unreadable' if found is None else f'up to offset {found.position.applied}'})"


def _carry_keyset(settings: Settings, store: OfflineStore) -> None:
    """Copy the node's keyset to the topic of keysets, if the state needs one."""
    with store.view() as view:
        if not has_encoded(view):
            return
    place, copy = keyset_store(settings), KeysetFile(settings.data)
    keyset = copy.read()
    if keyset is not None:
        carry(keyset, place)
    elif place.read() is None:
        print(f"not included: the keyset of encrypted metadata; neither {place.name} nor {copy.name} has one")


def _say_what_is_next(plan: ReseedPlan, applied: int) -> None:
    print(
        f"Done: {plan.records} records were written. Now start the nodes:\n"
        f"  {with_same_settings('registrar serve')}\nA node that still has a store "
        "of the former topic notices, and builds it again from this one.\nWrites to the former topic from "
        f"offset {applied} on are lost, and their ids may be assigned again.\nIf there are several stores, "
        "only the last primary's is sure to hold every acknowledged write."
    )
