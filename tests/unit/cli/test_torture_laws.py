"""The laws of the torture test on short histories: each line is an operation with its call and its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.cli.torture.history import FINAL, FailureKind, Fault, Operation, failure_kind
from registry.cli.torture.laws import NAMES, find_violations

A, B = "http://a", "http://b"
SCHEMA, OTHER = '"int"', '"long"'


def op(name: str, call: float, end: float, *, address: str = A, client: str = "c", **rest: Any) -> Operation:
    """Return an operation on the subject ``s``, answered with 200 unless said."""
    about: dict[str, Any] = {"task": int(call * 100), "status": 200, "subject": "s"} | rest
    return Operation(op=name, client=client, address=address, began=call, ended=end, **about)


def register(call: float, end: float, version: int | None = 1, number: int = 1, **rest: Any) -> Operation:
    return op("register", call, end, **{"schema": SCHEMA, "id": number, "version": version, **rest})


def broken(*operations: Operation, staleness_s: float = 0.0) -> dict[str, list[Operation]]:
    """Return the proofs by law."""
    found = find_violations(operations, staleness_s)
    assert {each.law for each in found} <= {*NAMES}
    return {each.law: [*each.operations] for each in found}


MISSING: dict[str, Any] = {"status": 404}


def test_an_id_is_known_everywhere_as_soon_as_it_is_acknowledged() -> None:
    write = register(1, 2)
    late = op("by-id", 2.1, 2.2, address=B, asked=1, **MISSING)
    assert broken(write, late) == {"stale-id": [write, late]}
    assert not broken(write, op("by-id", 1.9, 2.2, address=B, asked=1, **MISSING)), "called before the end"
    assert not broken(write, late, staleness_s=0.5), "tolerated"
    last = op("by-id", 9, 10, address=B, client=FINAL, asked=1, **MISSING)
    assert broken(write, last, staleness_s=0.5) == {"lost-write": [write, last]}


@pytest.mark.parametrize(
    ("name", "shown"), [("list", {"versions": ()}), ("list", MISSING), ("latest", MISSING)]
)
def test_versions_are_shown_everywhere_as_soon_as_they_are_acknowledged(name: str, shown: Any) -> None:
    write, read = register(1, 2), op(name, 3, 4, address=B, **shown)
    assert broken(write, read) == {f"stale-{name}": [write, read]}
    last = op(name, 3, 4, client=FINAL, **shown)
    assert broken(write, last) == {"lost-write": [write, last]}


def test_an_answer_that_says_that_it_may_be_old_is_not_stale() -> None:
    write, delete = register(1, 2), op("delete", 3, 4, versions=(1,))
    read = op("list", 5, 6, address=B, versions=(1,))
    assert broken(write, delete, read) == {"stale-list": [delete, read]}
    assert not broken(write, delete, replace(read, stale=True))
    assert replace(read, stale=True).outcome == "stale"
    lost = op("by-id", 5, 6, asked=1, id=1, shown=OTHER, stale=True)
    assert broken(write, lost) == {"two-schemas": [write, lost]}, "an id means one schema at all times"


def test_latest_is_no_older_version() -> None:
    writes = [register(1, 2), register(3, 4, 2, 2, schema=OTHER)]
    read = op("latest", 5, 6, id=1, version=1, shown=SCHEMA)
    assert broken(*writes, read) == {"stale-latest": [writes[1], read]}
    assert not broken(*writes, op("latest", 3.5, 6, id=1, version=1, shown=SCHEMA))


def test_a_version_that_the_acknowledgement_does_not_name_is_found_in_other_answers() -> None:
    write, read = register(1, 2, None), op("list", 3, 4, versions=())
    shows = op("version", 5, 6, asked=1, version=1, id=1, shown=SCHEMA)
    assert broken(write, read, shows) == {"stale-list": [write, read, shows]}
    assert not broken(write, read), "its version is not known"


@pytest.mark.parametrize(
    "delete",
    [
        op("delete-version", 3, 4, asked=1, version=1),
        op("delete", 3, 4, versions=(1,)),
        op("delete", 3, 4, status=0),
        op("delete", 5.5, 9, status=503),
    ],
)
def test_a_deletion_explains_a_missing_version(delete: Operation) -> None:
    retried = op("delete", 10, 11, task=delete.task, **MISSING)
    assert not broken(register(1, 2), delete, op("list", 5, 6, **MISSING), retried)


@pytest.mark.parametrize(
    "delete",
    [
        op("delete-version", 3, 4, asked=2, version=2),
        op("delete", 3, 4, versions=(7,)),
        op("delete", 3, 4, **MISSING),
        op("delete", 6.5, 7, versions=(1,)),
        op("delete", 0, 0.5, versions=(1,)),
    ],
)
def test_another_deletion_does_not(delete: Operation) -> None:
    assert broken(register(1, 2), delete, op("list", 5, 6, **MISSING)).keys() >= {"stale-list"}


def test_a_deletion_is_seen_everywhere_and_stays() -> None:
    delete, shown = op("delete", 3, 4, versions=(1,)), op("list", 5, 6, address=B, versions=(1,))
    assert broken(register(1, 2), delete, shown) == {"stale-list": [delete, shown]}
    assert not broken(register(1, 2), delete, shown, staleness_s=2)
    gone = op("list", 4.1, 4.2, address=B, **MISSING)
    assert broken(register(1, 2), delete, gone, shown) == {"came-back": [delete, gone, shown]}
    last = op("list", 8, 9, client=FINAL, versions=(1,))
    assert broken(register(1, 2), delete, last)["came-back"] == [delete, last]


def test_another_latest_version_is_no_proof_that_one_was_gone() -> None:
    delete = op("delete-version", 3, 4, asked=1, version=1)
    higher = op("latest", 4.1, 4.2, id=2, version=2)
    assert broken(delete, higher, op("list", 5, 6, versions=(1, 2))).keys() == {"stale-list"}


def test_a_schema_has_one_id_and_an_id_one_schema() -> None:
    first, second = register(1, 2), register(1, 2.5, number=2, subject="t")
    assert broken(first, second) == {"two-ids": [first, second]}
    other = register(1, 2.5, schema=OTHER, subject="t")
    assert broken(first, other) == {"two-schemas": [first, other]}
    read = op("by-id", 3, 4, asked=1, shown=OTHER)
    assert broken(first, read) == {"two-schemas": [first, read]}


def test_versions_have_no_gaps() -> None:
    last = op("list", 8, 9, client=FINAL, versions=(1, 3))
    assert broken(last) == {"version-gap": [last]}
    assert not broken(last, op("delete-version", 3, 4, asked=2, version=2))
    assert not broken(last, op("delete", 3, 4, status=0), op("delete", 5, 6, task=300))


def test_ids_go_up() -> None:
    first, second = register(1, 2, number=5), register(3, 4, number=4, schema=OTHER, subject="t")
    assert broken(first, second) == {"falling-ids": [first, second]}
    assert not broken(first, register(1.5, 4, number=4, schema=OTHER, subject="t")), "at the same time"
    unanswered = register(0, 0.5, None, 0, status=0, id=None, schema=OTHER, subject="t")
    assert not broken(first, unanswered, second, register(3, 4, None, 4, task=0, schema=OTHER, subject="t"))


def test_an_operation_is_answered_somewhere() -> None:
    refused = register(1, 1.1, status=503, task=1)
    last = register(5, 5.1, address=B, status=0, sent=False, task=1)
    assert broken(refused, register(2, 2.1, status=429, task=1), last) == {"unavailable": [refused, last]}
    assert not broken(refused, register(2, 3, task=1))


def test_what_is_compatible_is_accepted() -> None:
    refused = register(1, 2, status=409)
    assert broken(refused) == {"refused": [refused]}
    read = op("list", 1, 2, status=401)
    assert broken(read) == {"refused": [read]}


@pytest.mark.parametrize(
    ("call", "address", "fault"), [(1, A, "here"), (1, B, "elsewhere"), (1.9, A, "here"), (2.1, A, "")]
)
def test_a_failure_says_where_the_hook_ran_meanwhile(call: float, address: str, fault: str) -> None:
    failed = op("list", call, call + 0.5, address=address, status=503, error_code=50003)
    faults = [Fault(A, 1.2, 2.0)]
    assert failure_kind(failed, faults) == FailureKind(503, 50003, sent=True, fault=fault)
    assert failure_kind(op("list", call, call + 0.5, address=address), faults) is None
