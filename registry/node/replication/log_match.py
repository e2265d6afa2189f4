"""Check that a topic is the one this store was built from and that the store can safely resume from it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import orjson

from registry.domain.fold.fold import apply
from registry.domain.log_format.lineage import NOTHING, Lineage, Trace, too_long
from registry.domain.log_format.records import RESEED_KEY, Record
from registry.domain.model import DEFAULT_CONTEXT, ID_MAX
from registry.domain.queries.versions import contexts_known
from registry.domain.rows.layout import ID, context_key, id_prefix, unnumber, version_key_of_id
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View
from registry.log.contract import ForeignLog, Log, LogError, Unreachable

from .read_barrier import StaleStore

_RECORDS_MAX = 10_000
_BYTES_MAX = 8 << 20
_WAIT_S = 5.0
# Contexts whose ids are searched, the default one first.
_CONTEXTS_MAX = 20
_log = logging.getLogger(__name__)


class Known(NamedTuple):
    """The state of the store that a log has to match."""

    # Identity of the log that the store was built from.
    identity: str
    applied: int
    at_end_ms: int
    lineage: Lineage = NOTHING
    # Opens a view of the rows; ``None`` while they cannot be read.
    rows: Callable[[], AbstractContextManager[View]] | None = None


class LogMatcher:
    """Checks logs against one store; ``known`` returns the current state of the store."""

    def __init__(self, known: Callable[[], Known], *, margin_ms: int, now: Callable[[], int]) -> None:
        self._known = known
        self._margin_ms = margin_ms
        self._now = now
        self._searched = ("", 0)

    def __call__(self, log: Log) -> None:
        """Check that ``log`` is the store's.

        Raises :class:`ForeignLog` if it is not, :class:`StaleStore` if the store has to be rebuilt from it.
        """
        known = self._known()
        if log.identity != known.identity:
            if self._seeded_from(log, known.identity):
                raise StaleStore(
                    f"the log {log.identity} was seeded with the state of this store's log {known.identity}; "
                    "rebuilding the store from it"
                )
            raise _another(log.identity, known.identity)
        if known.applied > log.end():
            common = common_end(log, known)
            raise ForeignLog(
                f"the log {log.identity} ends at offset {log.end()}, but the store holds it up to "
                f"{known.applied}: its end was cut off; {_describe_answers(common)}",
                common=common,
            )
        divergence = log.divergence(known.lineage)
        if divergence is not None:
            common = common_end(log, known)
            raise ForeignLog(
                f"the log {log.identity} has lost records and grown again: from offset {divergence} or "
                f"earlier on, up to {log.end()}, it lacks those that the store holds up to {known.applied}; "
                f"{_describe_answers(common)} To keep what the store holds, publish "
                "it into a new topic with: registrar log reseed; to keep what the log holds, stop this node, "
                "move its folder store away and start it again",
                common=common,
            )
        why = too_long(known.at_end_ms, self._now(), log.tombstone_retention_ms, self._margin_ms)
        if why:
            raise StaleStore(f"the store must be rebuilt: {why}")

    def _seeded_from(self, log: Log, identity: str) -> bool:
        """Return true if ``log`` has the marker that ends a reseeding from ``identity``.

        Reads only the records that earlier calls have not searched.
        """
        searched, offset = self._searched
        if searched != log.identity:
            offset = 0
        while offset < log.end():
            fetched = log.read(offset, _RECORDS_MAX, _BYTES_MAX)
            if fetched.next <= offset and not log.wait(offset, _WAIT_S):
                raise Unreachable(f"the log {log.identity} does not give its records from {offset} on")
            offset = max(offset, fetched.next)
            if any(_origin(record) == identity for record in fetched.records):
                return True
        self._searched = (log.identity, offset)
        return False


def common_end(log: Log, known: Known) -> int:
    """Return the offset up to which ``log`` is proven to hold the records of a store; 0: nothing is.

    A record of the same offset, time and content was appended once, so what lies before it is the same too.
    The newest records are those of the lineage. If all of them are lost, versions lead to older ones.
    """
    try:
        for trace in reversed(known.lineage.traces):
            found = _record_at(log, trace.offset)
            if found is not None and Trace.of(found) == trace:
                return trace.offset + 1
        if known.rows is None:
            return 0
        with known.rows() as view:
            contexts = [DEFAULT_CONTEXT, *contexts_known(view)][:_CONTEXTS_MAX]
        return max(_common_version(log, known.rows, each) for each in contexts)
    except LogError:
        return 0  # Nothing is proven; a later comparison may show more.


def _record_at(log: Log, offset: int) -> Record | None:
    if offset >= log.end():
        return None
    found = log.read_again(offset, 1, _BYTES_MAX).records
    return found[0] if found and found[0].offset == offset else None


def _common_version(log: Log, rows: Callable[[], AbstractContextManager[View]], context: str) -> int:
    """Return the end of the newest record of a version that ``log`` is found to hold; 0 if there is none.

    Ids mostly grow with offsets, so a search among them finds it, or where they do not, an older one.
    """
    common, held, lost = 0, 0, ID_MAX + 1
    while lost - held > 1:
        middle = (held + lost) // 2
        with rows() as view:
            schema_id, key, row = _version_from(view, context, middle)
        if not key or schema_id >= lost:
            lost = middle
            continue
        version = VersionRow.unpack(row)
        found = _record_at(log, version.offset)
        folded = None if found is None else dict(apply(DictView(), found)).get(key)
        if folded is not None and VersionRow.unpack(folded)._replace(deleted=version.deleted) == version:
            common, held = max(common, version.offset + 1), schema_id
        else:
            lost = middle
    return common


def _version_from(view: View, context: str, schema_id: int) -> tuple[int, bytes, bytes]:
    """Return the first id that is not below ``schema_id``, and its version's key and row; b"" if none is."""
    prefix, part = id_prefix(context, schema_id), context_key(ID, context)
    found = view.seek(prefix)
    if found is None or not found[0].startswith(part):
        return 0, b"", b""
    key = version_key_of_id(found[0], prefix)
    return unnumber(found[0][len(part) : len(prefix)]), key, view.get(key) or b""


def _another(identity: str, known: str) -> ForeignLog:
    """Return the error for a log with another identity than the one that the store was built from."""
    # The identity of a topic is the Kafka cluster's id, the topic's name and its id; see KafkaLog.
    same_cluster = "/" in known and identity.split("/", maxsplit=1)[0] == known.split("/", maxsplit=1)[0]
    answered = (
        _describe_answers(0)
        if same_cluster
        else ("nothing is answered from the store, and writes are refused.")
    )
    return ForeignLog(
        f"the log is {identity}, but the store was built from {known}; {answered} Bring the former topic "
        "back, or give this node another folder in the setting data, or publish the store's state into the "
        "new topic with: registrar log reseed",
        served=same_cluster,
    )


def _describe_answers(common: int) -> str:
    """Return what is answered while the log is proven to hold the store's records before ``common``."""
    if not common:
        return "no schema is answered, because its id may mean another in the log, and writes are refused."
    return f"schemas registered from offset {common} on are not answered, and writes are refused."


def _origin(record: Record) -> str:
    """Return the identity of the log whose state precedes a reseeding marker; empty for all other records."""
    if record.key != RESEED_KEY or record.value is None:
        return ""
    try:
        origin = orjson.loads(record.value)["from"]
    except (ValueError, KeyError, TypeError):
        return ""
    return origin if isinstance(origin, str) else ""
