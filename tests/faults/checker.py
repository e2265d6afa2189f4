"""Laws that a recorded history must obey, whatever was done to the servers meanwhile.

Every subject is written by one client, one request after another, and is not used again after it was deleted.
Each check returns what it found wrong, in words; nothing is right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from registry.domain.log_format.records import Record

from .history import History, Kind, Request
from .segments import Batch

SHOWN_MAX = 20


class Violations(AssertionError):
    """The violations that were found."""

    def __init__(self, findings: Sequence[str]) -> None:
        more = f"\n… and {len(findings) - SHOWN_MAX} more" if len(findings) > SHOWN_MAX else ""
        super().__init__("\n".join(findings[:SHOWN_MAX]) + more)
        self.findings = findings


def check(history: History, batches: Sequence[Batch]) -> None:
    """Run all checks. Raises :class:`Violations`."""
    records = [record for batch in batches for record in batch.records]
    findings = [
        *stale_reads(history.requests),
        *lost_or_false(history.requests, records),
        *ids_of(records),
        *epochs(batches),
        *digests(history.digests),
    ]
    if findings:
        raise Violations(findings)


def stale_reads(requests: Iterable[Request]) -> Iterator[str]:
    """Yield reads that began after an acknowledged write and show less, or after a delete and show more."""
    subjects: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        subjects[request.subject].append(request)
    for history in subjects.values():
        writes = [each for each in history if each.kind in (Kind.REGISTER, Kind.DELETE)]
        for read in history:
            is_current = read.kind in (Kind.BY_ID, Kind.LATEST, Kind.LIST) and read.at is None
            if is_current and not read.failed and not read.warning:
                yield from _stale(read, writes)


def _stale(read: Request, writes: list[Request]) -> Iterator[str]:
    known = [each for each in writes if each.kind is Kind.REGISTER and each.done and each.ended < read.began]
    deletes = [each for each in writes if each.kind is Kind.DELETE and each.began < read.ended]
    gone = any(each.done and each.ended < read.began for each in deletes)
    what = f"{read.kind.value} of {read.subject} through node {read.node} at {read.began:.3f}"
    if read.kind is Kind.BY_ID:
        # A soft delete leaves ids alone.
        if not read.done:
            yield f"{what}: {read.status} for id {read.schema_id}, acknowledged before"
        elif read.answer.get("schema") != read.schema:
            yield f"{what}: another schema under id {read.schema_id}"
        return
    seen = _versions(read)
    if gone:
        if seen:
            yield f"{what}: shows {sorted(seen)}, deleted before"
    elif not deletes:
        newest = max((each.answer["version"] for each in known), default=0)
        if read.kind is Kind.LATEST and max(seen, default=0) < newest:
            yield f"{what}: shows {sorted(seen)} ({read.status}), version {newest} was acknowledged before"
        missing = {each.answer["version"] for each in known} - seen
        if read.kind is Kind.LIST and missing:
            yield f"{what}: {sorted(missing)} is missing ({read.status}), acknowledged before"


def _versions(read: Request) -> set[int]:
    if not read.done:
        return set()
    return {read.answer["version"]} if read.kind is Kind.LATEST else set(read.answer)


def lost_or_false(requests: Iterable[Request], records: Iterable[Record]) -> Iterator[str]:
    """Yield acknowledged writes that the log lacks or holds differently, and refused ones that it holds."""
    found: dict[str, list[tuple[str, int, int, int]]] = defaultdict(list)
    deleted: dict[str, int] = {}
    for record in records:
        key = _json(record.key)
        if key.get("keytype") == "SCHEMA" and record.value is not None:
            value = _json(record.value)
            place = (value["subject"], value["version"], value["id"], record.offset)
            found[value["schema"]].append(place)
        elif key.get("keytype") == "DELETE_SUBJECT" and record.value is not None:
            deleted.setdefault(key["subject"], record.offset)
    asked: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        if request.kind is Kind.REGISTER:
            asked[request.schema].append(request)
        elif request.kind is Kind.DELETE:
            yield from _delete(request, deleted.get(request.subject))
    for schema, tries in asked.items():
        yield from _registration(tries, found.get(schema, []))


def _registration(tries: list[Request], found: list[tuple[str, int, int, int]]) -> Iterator[str]:
    for request in tries:
        if not request.done:
            continue
        wanted = (request.subject, request.answer["version"], request.answer["id"])
        here = [each for each in found if each[:3] == wanted]
        if not here:
            yield f"{wanted} was acknowledged by node {request.node}; the log holds {found}"
        elif request.offset is not None and request.offset <= min(each[3] for each in here):
            yield f"{wanted} stands at {here[0][3]}, acknowledged as visible at {request.offset}"
    if found and not any(each.done or each.uncertain for each in tries):
        answers = sorted({(each.status, each.code) for each in tries})
        yield f"{tries[0].subject} was reported not done {answers}; the log holds {found}"
    if len({each[:2] for each in found}) > 1:
        yield f"one registration of {tries[0].subject} made several versions: {found}"


def _delete(request: Request, offset: int | None) -> Iterator[str]:
    if request.done and offset is None:
        yield f"the delete of {request.subject} was acknowledged by node {request.node}; the log lacks it"
    if offset is not None and not request.done and not request.uncertain and request.status >= 500:
        yield f"the delete of {request.subject} was reported not done ({request.code}); it stands at {offset}"


def ids_of(records: Iterable[Record]) -> Iterator[str]:
    """Yield ids of the default context that two schemas share, or that do not grow along the log."""
    bound: dict[int, str] = {}
    highest = 0
    for record in records:
        key = _json(record.key)
        if key.get("keytype") != "SCHEMA" or record.value is None or key["subject"].startswith(":."):
            continue
        value = _json(record.value)
        schema_id, schema = value["id"], value["schema"]
        if schema_id not in bound:
            bound[schema_id] = schema
            if schema_id < highest:
                yield f"id {schema_id} at offset {record.offset} is new and below {highest}"
            highest = max(highest, schema_id)
        elif bound[schema_id] != schema:
            yield f"id {schema_id} stands for two schemas, the second at offset {record.offset}"


def epochs(batches: Iterable[Batch]) -> Iterator[str]:
    """Yield batches of an older epoch after the first of a newer one, and claims that write after another
    has.

    A claim is a producer id and its epoch. Barriers and no-ops decide nothing: of two producer ids, the one
    that goes on after them writes.
    """
    newest: dict[int, int] = {}
    writing, written = None, set()
    for batch in batches:
        claim = (batch.producer, batch.epoch)
        at = f"the batch at offset {batch.base} of producer {batch.producer}"
        if batch.producer < 0:
            yield f"{at}: it has none"
        elif batch.epoch < newest.get(batch.producer, -1):
            yield f"{at} is of epoch {batch.epoch}, after one of {newest[batch.producer]}"
        elif claim != writing and not all(b'"NOOP"' in (record.key or b"") for record in batch.records):
            if claim in written:
                yield f"{at} is of epoch {batch.epoch}, after {writing} wrote"
            writing = claim
            written.add(claim)
        newest[batch.producer] = max(batch.epoch, newest.get(batch.producer, -1))


def digests(said: Iterable[tuple[int, int, str]]) -> Iterator[str]:
    """Yield nodes whose stores differ at one offset."""
    first: dict[int, tuple[int, str]] = {}
    for node, applied, digest in said:
        other, known = first.setdefault(applied, (node, digest))
        if known != digest:
            yield f"nodes {other} and {node} differ at offset {applied}: {known}, {digest}"


def _json(raw: bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(raw or b"{}")
    return found
