"""Writing the state of a store into an empty log, which is checked before and read back afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from registry.base.config.settings import Settings
from registry.base.observe.progress import Steps
from registry.domain import reseed
from registry.domain.log_format.records import Entry
from registry.domain.rows.view import View
from registry.log.contract import Log, LogError
from registry.log.kafka.log import KafkaLog
from registry.store.lmdb import Store
from registry.store.offline import OfflineStore
from registry.store.open import open_store

from . import reseed_log
from .reseed_log import ForeignRecords, ReseedPlan, Resumed

# Prefix of the folder into which the log is read back.
_CHECKED = "reseeded-"
_ASK_S = 30.0
# Kinds of records in the words of users; a kind that is not here keeps its name on the wire.
_KINDS = {
    "ASSOC": "associations of topics",
    "CLEAR_SUBJECT": "permanent deletions of subjects",
    "CONFIG": "configs",
    "CONTEXT": "contexts",
    "DELETE_SUBJECT": "deletions of subjects",
    "MODE": "modes",
    "NOOP": "reservations of ids, and webhooks",
    "SCHEMA": "schemas",
}


class ReseedRefused(Exception):
    """Nothing was written, or writing stopped; the text says why and what to do."""


class ReseedTarget(NamedTuple):
    """The log that the state is written to."""

    log: Log
    # The log's name in messages.
    name: str
    # The setting that allows larger records.
    larger: str
    # Advice for a log that holds something else.
    advice: str
    # Folder for the store into which the log is read back, and the most that it may grow to.
    data: Path
    map_bytes: int


def topic_target(settings: Settings, log: KafkaLog) -> ReseedTarget:
    """Return the topic that the settings name, as a target."""
    return ReseedTarget(
        log,
        name=f"the topic {settings.topic} ({log.identity})",
        larger="max.message.bytes",
        advice="Choose another topic with --topic; or, if nothing in this one is needed any more, delete it.",
        data=settings.data,
        map_bytes=settings.store_map_bytes,
    )


def look_at_store(store: OfflineStore, name: str, *, empty: bool) -> ReseedPlan:
    """Check the store's rows and count the records to write; ``name`` is the store's name in messages.

    Raises :class:`registry.store.layout.DamagedStore`, and :class:`ReseedRefused` if there is nothing to
    write, unless an ``empty`` state is wanted.
    """
    print(f"{name}: the contents of the log {store.log} up to offset {store.state.applied}")
    print("checking them …", flush=True)
    store.check()
    with store.view() as view:
        plan = reseed_log.plan(view, store.log, store.state.applied)
        left_out = reseed.left_out(view)
    kinds = ", ".join(f"{count} {_KINDS.get(kind, kind)}" for kind, count in sorted(plan.kinds.items()))
    print(f"to write: {plan.records} records ({kinds or 'none'}), {plan.bytes} bytes")
    for words, count in left_out.items():
        print(f"not included: {count} {words}")
    if not (plan.records or empty):
        raise ReseedRefused(f"the {name} is empty; to write an empty state nevertheless, give --empty")
    return plan


def publish_state(
    store: OfflineStore,
    plan: ReseedPlan,
    target: ReseedTarget,
    *,
    dry_run: bool,
    conflicts: Callable[[View, View], Iterator[str]] | None = None,
) -> bool:
    """Write the records that the log does not hold yet, read it back, and compare its rows with the store's.

    Returns false, without writing, for ``dry_run``. ``conflicts`` lists the conflicts between the store's
    rows and those of a log that is not empty. Raises :class:`ReseedRefused`, and the errors of the log and
    the store.
    """
    try:
        found, remaining = _look_at_log(store, plan, target)
    except ForeignRecords as error:
        for conflict in _conflicts(store, target, conflicts) if conflicts else ():
            print(f"conflict: {conflict}")
        raise ReseedRefused(
            f"{target.name} is not empty, and not what an interrupted run of this command left: {error}. "
            f"{target.advice}"
        ) from error
    if dry_run:
        print("nothing was written")
        return False
    if found.records <= plan.records:
        _publish(remaining, found, plan, target)
    _verify(store, plan, target)
    return True


def _look_at_log(
    store: OfflineStore, plan: ReseedPlan, target: ReseedTarget
) -> tuple[Resumed, Iterator[Entry]]:
    """Return the part that the log holds, and the remaining records. Raises :class:`ForeignRecords`."""
    log = target.log
    if log.identity == store.log:
        raise ReseedRefused(_is_the_same(target, log.query_end(_ASK_S), store.state.applied))
    largest = plan.largest
    if largest is not None and reseed_log.size_of(largest) > log.record_bytes_max:
        raise ReseedRefused(
            f"{target.name} takes records of at most {log.record_bytes_max} bytes, but one has "
            f"{reseed_log.size_of(largest)}: {largest.key.decode()}; raise {target.larger}"
        )
    with store.view() as view, Steps() as steps:
        shown = partial(_show, steps, "reading the log", plan.records + 1)
        found = reseed_log.skip_held(log, reseed_log.every(view, plan.marker), shown)
    if found.records > plan.records:
        print(f"{target.name} already holds all of it")
    elif found.records:
        print(f"{target.name} holds {found.records} of these records from an interrupted run")
    else:
        print(f"{target.name} is empty")
    return found, _remaining(store, plan, found.records)


def _is_the_same(target: ReseedTarget, end: int, applied: int) -> str:
    cut = f", but it ends at {end}, and the state is that up to {applied}" if end < applied else ""
    return f"{target.name} is the log that this state was made from{cut}. {target.advice}"


def _remaining(store: OfflineStore, plan: ReseedPlan, done: int) -> Iterator[Entry]:
    with store.view() as view:
        yield from islice(reseed_log.every(view, plan.marker), done, None)


def _conflicts(
    store: OfflineStore, target: ReseedTarget, find: Callable[[View, View], Iterator[str]]
) -> Iterator[str]:
    with _fold_target(target, 0) as folded, store.view() as old, folded.view() as new:
        yield from find(old, new)


def _publish(remaining: Iterator[Entry], found: Resumed, plan: ReseedPlan, target: ReseedTarget) -> None:
    try:
        claimed = reseed_log.claim(target.log, found)
    except ForeignRecords as error:
        raise ReseedRefused(f"{error} in {target.name}: stop all nodes and run this again") from error
    if claimed is not None:
        print(f"from here on, nobody else can write to {target.name}")
    try:
        with Steps() as steps:
            shown = partial(_show, steps, "writing", plan.records + 1)
            reseed_log.publish(target.log, remaining, found, shown)
    except LogError as error:
        raise ReseedRefused(
            f"{target.name} holds only some of the records: {error}. Stop all nodes and run the same command "
            "again to resume"
        ) from error


def _verify(store: OfflineStore, plan: ReseedPlan, target: ReseedTarget) -> None:
    with _fold_target(target, plan.records + 1) as folded:
        print("comparing what was read back with what was to be written …", flush=True)
        with store.view() as old, folded.view() as new:
            differences = list(reseed.differences(old, new))
    if differences:
        raise ReseedRefused(
            f"{target.name} does not have the expected content: {'; '.join(differences)}. "
            f"{target.advice} If nothing else wrote to it, this is a bug"
        )
    print("verified: the log has the same subjects, versions, ids, configs and modes")


@contextmanager
def _fold_target(target: ReseedTarget, records: int) -> Iterator[Store]:
    """Fold the log into a temporary store, for a ``with`` block."""
    with _empty_folder(target.data) as folder:
        log = target.log
        folded, _ = open_store(folder, log.identity, log.query_end(_ASK_S), map_bytes=target.map_bytes)
        with closing(folded):
            with Steps() as steps:
                shown = partial(_show, steps, "reading back", records or log.query_end(_ASK_S))
                reseed_log.fold_back(log, folded, shown)
            yield folded


def _show(steps: Steps, step: str, total: int, done: int) -> None:
    steps(step, done, total)


@contextmanager
def _empty_folder(data: Path) -> Iterator[Path]:
    for left in data.glob(f"{_CHECKED}*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_CHECKED, dir=data))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
