"""The state of a store into an empty log: looked at before anything is written, and read back afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from registry.config.settings import Settings
from registry.domain import reseed
from registry.domain.log_format.records import Entry
from registry.domain.rows.layout import View
from registry.log.contract import Log, LogError
from registry.log.kafka.log import KafkaLog
from registry.observe.progress_bar import ProgressBar
from registry.store.lmdb import Store
from registry.store.offline import KeptStore
from registry.store.open import open_store

from . import reseed_log
from .reseed_log import Held, NotOurs, Wanted

_CHECKED = "reseeded-"
_ASK_S = 30.0


class Refused(Exception):
    """Nothing was written, or no more is; the text says why and what to do."""


class Target(NamedTuple):
    """Where the state goes."""

    log: Log
    name: str
    """What messages call the log."""
    larger: str
    """What lets it take larger records."""
    anew: str
    """What to do with a log that holds something else."""
    data: Path
    """Folder for a store in which the log is read back."""
    map_bytes: int
    """The most that this store may grow to."""


def topic_target(settings: Settings, log: KafkaLog) -> Target:
    """The topic that the settings name, as a place for a state."""
    return Target(
        log,
        name=f"the topic {settings.topic} ({log.identity})",
        larger="max.message.bytes",
        anew="Name another topic with --topic; or, where nothing in this one is needed any more, delete it.",
        data=settings.data,
        map_bytes=settings.store_map_bytes,
    )


def look_at_store(store: KeptStore, name: str) -> Wanted:
    """Check and count what is to be written; ``name`` is what messages call the store.

    Raises :class:`registry.store.layout.DamagedStore`.
    """
    print(f"{name}: made from log {store.log}, up to offset {store.state.applied}")
    print("its rows are checked and counted …", flush=True)
    store.check()
    with store.view() as view:
        wanted = reseed_log.wanted(view, store.log, store.state.applied)
        left_out = reseed.left_out(view)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(wanted.kinds.items()))
    print(f"its state is {wanted.records} records ({kinds or 'none'}) of {wanted.bytes} bytes")
    for words, count in left_out.items():
        print(f"not carried: {count} {words}")
    return wanted


def publish_state(
    store: KeptStore,
    wanted: Wanted,
    target: Target,
    *,
    dry_run: bool,
    clashes: Callable[[View, View], Iterator[str]] | None = None,
) -> bool:
    """Write what the log does not hold yet, and compare its rows with those of the store; whether it did.

    Not when it was only tried. Raises :class:`Refused`, and the errors of the log and the store.
    ``clashes`` says what stands against the state in a log that is not empty: the old rows, the log's.
    """
    try:
        found, remaining = _look_at_log(store, wanted, target)
    except NotOurs as error:
        for clash in _clashes(store, target, clashes) if clashes else ():
            print(f"clash: {clash}")
        raise Refused(
            f"{target.name} is not empty, nor the begin of a reseed of this state: {error}. {target.anew}"
        ) from error
    if dry_run:
        print("nothing was written")
        return False
    if found.records <= wanted.records:
        _publish(remaining, found, wanted, target)
    _verify(store, wanted, target)
    return True


def _look_at_log(store: KeptStore, wanted: Wanted, target: Target) -> tuple[Held, Iterator[Entry]]:
    """What the log holds, and what it does not hold yet. Raises :class:`NotOurs` for a foreign one."""
    log = target.log
    if log.identity == store.log:
        raise Refused(_is_the_same(target, log.query_end(_ASK_S), store.state.applied))
    largest = wanted.largest
    if largest is not None and reseed_log.size_of(largest) > log.record_bytes_max:
        raise Refused(
            f"{target.name} takes records of at most {log.record_bytes_max} bytes, but one has "
            f"{reseed_log.size_of(largest)}: {largest.key.decode()}; raise {target.larger}"
        )
    with store.view() as view, ProgressBar("looking at the log", wanted.records + 1) as shown:
        found = reseed_log.held(log, reseed_log.every(view, wanted.marker), shown)
    if found.records > wanted.records:
        print(f"{target.name} holds all of it")
    elif found.records:
        print(f"{target.name} holds {found.records} of these records from a reseed that was interrupted")
    else:
        print(f"{target.name} holds no state")
    return found, _remaining(store, wanted, found.records)


def _is_the_same(target: Target, end: int, applied: int) -> str:
    cut = f", but ends at {end}, and the state is that up to {applied}" if end < applied else ""
    return f"{target.name} is the log that this state was made from{cut}. {target.anew}"


def _remaining(store: KeptStore, wanted: Wanted, done: int) -> Iterator[Entry]:
    with store.view() as view:
        yield from islice(reseed_log.every(view, wanted.marker), done, None)


def _clashes(store: KeptStore, target: Target, find: Callable[[View, View], Iterator[str]]) -> Iterator[str]:
    with _folded(target, 0) as folded, store.view() as old, folded.view() as new:
        yield from find(old, new)


def _publish(remaining: Iterator[Entry], found: Held, wanted: Wanted, target: Target) -> None:
    try:
        claim = reseed_log.claim(target.log, found)
    except NotOurs as error:
        raise Refused(f"{error} in {target.name}: stop all nodes and run this again") from error
    if claim is not None:
        print(f"it is claimed: a node that writes to it elsewhere is refused from here on ({claim})")
    try:
        with ProgressBar("writing", wanted.records + 1) as shown:
            reseed_log.publish(target.log, remaining, found, shown)
    except LogError as error:
        raise Refused(
            f"{target.name} holds a part of the records: {error}. Stop all nodes and run the same command "
            "again; it goes on where it ended"
        ) from error


def _verify(store: KeptStore, wanted: Wanted, target: Target) -> None:
    with _folded(target, wanted.records + 1) as folded:
        print("the rows of both are compared …", flush=True)
        with store.view() as old, folded.view() as new:
            differences = list(reseed.differences(old, new))
    if differences:
        raise Refused(
            f"{target.name} does not give the rows of the store: {'; '.join(differences)}. "
            f"{target.anew} This is a bug if nobody else wrote to it"
        )
    print("read back: the log gives the same subjects, versions, ids, configs and modes")


@contextmanager
def _folded(target: Target, records: int) -> Iterator[Store]:
    """The log's rows, for a ``with`` block."""
    with _empty_folder(target.data) as folder:
        log = target.log
        folded, _ = open_store(folder, log.identity, log.query_end(_ASK_S), map_bytes=target.map_bytes)
        with closing(folded):
            with ProgressBar("reading back", records or log.query_end(_ASK_S)) as shown:
                reseed_log.fold_back(log, folded, shown)
            yield folded


@contextmanager
def _empty_folder(data: Path) -> Iterator[Path]:
    for left in data.glob(f"{_CHECKED}*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_CHECKED, dir=data))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
