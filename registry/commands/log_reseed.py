"""``registrar log reseed``: the state of a store into an empty topic.

Everything is looked at before anything is written: the store against its digest, the topic against what it
may hold, the largest record against what the topic takes. Afterwards the topic is folded into a store of its
own and compared row by row.
"""

from __future__ import annotations

import sys
from contextlib import closing

from registry.config.settings import Settings
from registry.domain.queries.sensitive_metadata import has_encoded
from registry.encoder.keyset_storage import KeysetFile, carry
from registry.encoder.open import keyset_place
from registry.log.contract import LogError
from registry.log.kafka.open_topic import open_topic_for_command
from registry.store.layout import StoreError
from registry.store.offline import KeptStore
from snapshots.backup.reseed_log import Wanted
from snapshots.backup.reseed_publish import Refused, look_at_store, publish_state, topic_target


def log_reseed(settings: Settings, *, dry_run: bool) -> int:
    """Run the command; 0 when the topic holds the whole state (or, tried only, could be given it), else 1."""
    try:
        _log_reseed(settings, dry_run=dry_run)
    except (Refused, StoreError, LogError, OSError) as error:
        print(f"registrar: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nregistrar: interrupted; run the same command again to go on", file=sys.stderr)
        return 1
    return 0


def _log_reseed(settings: Settings, *, dry_run: bool) -> None:
    if not settings.kafka:
        raise Refused("log reseed writes to a Kafka topic: give --kafka HOST:PORT")
    with KeptStore(settings.data / "store") as store:
        wanted = look_at_store(store, f"store {settings.data / 'store'}")
        log = open_topic_for_command(settings, make=not dry_run)
        if log is None:
            print(
                f"the topic {settings.topic} does not exist; it would be made, and all of this written to it"
            )
            return
        with closing(log):
            if not dry_run:
                _carry_keyset(settings, store)
            if publish_state(store, wanted, topic_target(settings, log), dry_run=dry_run):
                _say_what_is_next(settings, wanted, store.state.applied)


def _carry_keyset(settings: Settings, store: KeptStore) -> None:
    """Bring the node's copy of the keyset to the topic of keysets, if the state needs one."""
    with store.view() as view:
        if not has_encoded(view):
            return
    place, copy = keyset_place(settings), KeysetFile(settings.data)
    keyset = copy.read()
    if keyset is not None:
        carry(keyset, place)
    elif place.read() is None:
        print(
            f"not carried: the keyset of encrypted metadata; neither {place.name} nor {copy.name} holds one"
        )


def _say_what_is_next(settings: Settings, wanted: Wanted, applied: int) -> None:
    print(
        f"Done: {wanted.records} records and the marker. Next:\n"
        f"  registrar serve --kafka {settings.kafka} --topic {settings.topic} --data {settings.data} …\n"
        "A node whose store is of the former log finds the marker and makes its store anew from the topic.\n"
        f"What the former log held from offset {applied} on is lost, and its ids may be given again. Among\n"
        "several stores, that of the node that was primary last lacks nothing that was acknowledged."
    )
