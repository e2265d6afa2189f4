"""``registrar log reseed``: the state of a store into an empty topic.

Everything is looked at before anything is written: the store against its digest, the topic against what it
may hold, the largest record against what the topic takes. Afterwards the topic is folded into a store of its
own and compared row by row.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from registry.domain import reseed
from registry.domain.records import Entry
from registry.log.contract import Log, LogError
from registry.settings import Settings
from registry.store.kept import KeptStore
from registry.store.layout import StoreError
from registry.store.opening import open_store

from . import reseeding
from .progress import Shown
from .reseeding import Held, NotOurs, Wanted
from .topic import open_topic

_CHECKED = "reseeded-"
_ASK_S = 30.0


class Refused(Exception):
    """Nothing was written, or no more is; the text says why and what to do."""


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
        _reseed(settings, store, dry_run=dry_run)


def _reseed(settings: Settings, store: KeptStore, *, dry_run: bool) -> None:
    wanted = _look_at_store(settings, store)
    log = open_topic(settings, make=not dry_run)
    if log is None:
        print(f"the topic {settings.topic} does not exist; it would be made, and all of this written to it")
        return
    with closing(log):
        found, remaining = _look_at_topic(settings, log, store, wanted)
        if dry_run:
            print("nothing was written")
            return
        if found.records <= wanted.records:
            _publish(settings, log, remaining, found, wanted)
        _verify(settings, log, store, wanted)
    _say_what_is_next(settings, wanted, store.state.applied)


def _look_at_store(settings: Settings, store: KeptStore) -> Wanted:
    print(f"store {settings.data / 'store'}: made from log {store.log}, up to offset {store.state.applied}")
    print("its rows are checked and counted …", flush=True)
    store.check()
    with store.view() as view:
        wanted = reseeding.wanted(view, store.log, store.state.applied)
        left_out = reseed.left_out(view)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(wanted.kinds.items()))
    print(f"its state is {wanted.records} records ({kinds or 'none'}) of {wanted.bytes} bytes")
    for words, count in left_out.items():
        print(f"not carried: {count} {words}")
    return wanted


def _look_at_topic(
    settings: Settings, log: Log, store: KeptStore, wanted: Wanted
) -> tuple[Held, Iterator[Entry]]:
    """What the topic holds, and what it does not hold yet. Raises :class:`Refused` for a foreign one."""
    topic = f"the topic {settings.topic} ({log.identity})"
    if log.identity == store.log:
        raise Refused(_is_the_same(topic, log.ask_end(_ASK_S), store.state.applied))
    if wanted.largest is not None and reseeding.size_of(wanted.largest) > log.record_bytes_max:
        raise Refused(
            f"{topic} takes records of at most {log.record_bytes_max} bytes, but one has "
            f"{reseeding.size_of(wanted.largest)}: {wanted.largest.key.decode()}; raise max.message.bytes"
        )
    with store.view() as view, Shown("looking at the topic", wanted.records + 1) as shown:
        try:
            found = reseeding.held(log, reseeding.every(view, wanted.marker), shown)
        except NotOurs as error:
            raise Refused(
                f"{topic} is not empty, nor the begin of a reseed of this store: {error}. "
                "Delete it and make it anew, or name another with --topic"
            ) from error
    if found.records > wanted.records:
        print(f"{topic} holds all of it")
    elif found.records:
        print(f"{topic} holds {found.records} of these records from a reseed that was interrupted")
    else:
        print(f"{topic} holds no state")
    return found, _remaining(store, wanted, found.records)


def _is_the_same(topic: str, end: int, applied: int) -> str:
    cut = f", but ends at {end}, and the store holds it up to {applied}" if end < applied else ""
    return (
        f"{topic} is the log that this store was made from{cut}. Where records of it are lost, delete "
        "the topic and run this again, or name another with --topic; else there is nothing to do but to serve"
    )


def _remaining(store: KeptStore, wanted: Wanted, held: int) -> Iterator[Entry]:
    with store.view() as view:
        yield from islice(reseeding.every(view, wanted.marker), held, None)


def _publish(settings: Settings, log: Log, remaining: Iterator[Entry], found: Held, wanted: Wanted) -> None:
    try:
        claim = reseeding.claim(log, found)
        print(f"the topic is claimed: a node that writes to it elsewhere is refused from here on ({claim})")
    except NotOurs as error:
        raise Refused(f"{error} in the topic {settings.topic}: stop all nodes and run this again") from error
    try:
        with Shown("writing", wanted.records + 1) as shown:
            reseeding.publish(log, remaining, found, shown)
    except LogError as error:
        raise Refused(
            f"the topic holds a part of the records: {error}. Stop all nodes and run the same command again; "
            "it goes on where it ended"
        ) from error


def _verify(settings: Settings, log: Log, store: KeptStore, wanted: Wanted) -> None:
    with _empty_folder(settings.data) as folder:
        checked, _ = open_store(folder, log.identity, log.ask_end(_ASK_S), map_bytes=settings.store_map_bytes)
        with closing(checked):
            with Shown("reading back", wanted.records + 1) as shown:
                reseeding.fold_back(log, checked, shown)
            print("the rows of both are compared …", flush=True)
            with store.view() as old, checked.view() as new:
                differences = list(reseed.differences(old, new))
    if differences:
        raise Refused(
            f"the topic {settings.topic} does not give the rows of the store: {'; '.join(differences)}. "
            "Delete it and reseed anew; this is a bug if nobody else wrote to it"
        )
    print("read back: the topic gives the same subjects, versions, ids, configs and modes")


@contextmanager
def _empty_folder(data: Path) -> Iterator[Path]:
    for left in data.glob(f"{_CHECKED}*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_CHECKED, dir=data))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _say_what_is_next(settings: Settings, wanted: Wanted, applied: int) -> None:
    print(
        f"Done: {wanted.records} records and the marker. Next:\n"
        f"  registrar serve --kafka {settings.kafka} --topic {settings.topic} --data {settings.data} …\n"
        "A node whose store is of the former log finds the marker and makes its store anew from the topic.\n"
        f"What the former log held from offset {applied} on is lost, and its ids may be given again. Among\n"
        "several stores, that of the node that was primary last lacks nothing that was acknowledged."
    )
