"""The checker on made-up histories: each has one fault, and only that must be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from registry.domain.log_format.records import BARRIER_KEY, NOOP_KEY, Record, delete_subject_key, schema_key
from registry.domain.log_format.values import delete_subject_value, schema_value
from registry.domain.model import Subject

from .checker import Violations, check
from .history import History, Kind, Request
from .segments import Batch

A = Subject.parse("a")
ANOTHER = '"long"'
TEXT = '"int"'


class Case:
    """Return a sound history for a test to spoil: `a` version 1 is registered at offset 1, later deleted."""

    def __init__(self) -> None:
        self.log: list[tuple[tuple[int, int], list[tuple[bytes, bytes | None]]]] = [
            ((7, 0), [(BARRIER_KEY, b'{"producer":7}')]),
            ((7, 0), [(schema_key(A, 1), schema_value(A, 1, 1, TEXT))]),
        ]
        self.requests: list[Request] = []
        self.digests: list[tuple[int, int, str]] = [(0, 2, "x"), (1, 2, "x"), (1, 3, "y")]
        self.registered()

    def registered(self, **others: Any) -> None:
        about = {"status": 200, "answer": {"id": 1, "version": 1}, "schema": TEXT, "offset": 2} | others
        self.requests.append(Request(Kind.REGISTER, 0, "a", 1.0, 2.0, **about))

    def deleted(self, **others: Any) -> None:
        about = {"status": 200, "answer": [1], "offset": 3} | others
        self.requests.append(Request(Kind.DELETE, 0, "a", 5.0, 6.0, **about))

    def append(self, key: bytes, value: bytes | None, claim: tuple[int, int] = (7, 0)) -> None:
        self.log.append((claim, [(key, value)]))

    def append_version(
        self, version: int, schema_id: int, text: str, claim: tuple[int, int] = (7, 0)
    ) -> None:
        self.append(schema_key(A, version), schema_value(A, version, schema_id, text), claim)

    def append_delete(self) -> None:
        self.append(delete_subject_key(A), delete_subject_value(A, 1))

    def read(self, kind: Kind, at: float, status: int, answer: Any, **others: Any) -> None:
        self.requests.append(
            Request(
                kind, 1, "a", at, at + 0.1, status=status, answer=answer, schema=TEXT, schema_id=1, **others
            )
        )

    def batches(self) -> list[Batch]:
        found, offset = [], 0
        for (producer, epoch), entries in self.log:
            records = [Record(offset + index, 0, *entry) for index, entry in enumerate(entries)]
            found.append(Batch(offset, producer, epoch, 0, records))
            offset += len(records)
        return found

    def findings(self) -> list[str]:
        try:
            check(History(self.requests, self.digests), self.batches())
        except Violations as found:
            return list(found.findings)
        return []


def sound_reads(case: Case) -> None:
    case.read(Kind.BY_ID, 3.0, 200, {"schema": TEXT})
    case.read(Kind.LATEST, 3.0, 200, {"version": 1})
    case.read(Kind.LIST, 3.0, 200, [1])


def read_before_the_answer(case: Case) -> None:
    case.read(Kind.LATEST, 1.5, 404, {"error_code": 40401})


def deleted_and_gone(case: Case) -> None:
    case.append_delete()
    case.deleted()
    case.read(Kind.LATEST, 7.0, 404, {"error_code": 40401})
    case.read(Kind.LIST, 5.5, 200, [1])
    case.read(Kind.BY_ID, 7.0, 200, {"schema": TEXT})


def not_answered(case: Case) -> None:
    case.read(Kind.LATEST, 3.0, 503, {"error_code": 503})
    case.read(Kind.LATEST, 3.0, 0, None)


def told_to_be_old(case: Case) -> None:
    case.append_delete()
    case.deleted()
    case.read(Kind.LATEST, 7.0, 200, {"version": 1}, warning=True)


def unknown_and_there(case: Case) -> None:
    case.append_version(2, 2, ANOTHER)
    case.registered(status=500, answer={"error_code": 50002}, schema=ANOTHER)


def unknown_and_not_there(case: Case) -> None:
    case.registered(status=0, answer=None, schema=ANOTHER)


def failed_then_done(case: Case) -> None:
    case.requests.insert(
        0, Request(Kind.REGISTER, 1, "a", 0.1, 0.2, status=500, answer={"error_code": 50004}, schema=TEXT)
    )


def newer_epoch(case: Case) -> None:
    case.append(BARRIER_KEY, b"{}", (7, 1))
    case.append_version(2, 2, ANOTHER, (7, 1))


def another_producer(case: Case) -> None:
    case.append(NOOP_KEY, None, (7, 1))
    case.append(BARRIER_KEY, b"{}", (8, 0))
    case.append_version(2, 2, ANOTHER, (8, 0))


SOUND = (
    sound_reads, read_before_the_answer, deleted_and_gone, not_answered, told_to_be_old, unknown_and_there,
    unknown_and_not_there, failed_then_done, newer_epoch, another_producer,
)  # fmt: skip


@pytest.mark.parametrize("arrange", SOUND, ids=lambda each: each.__name__)
def test_a_sound_history_passes(arrange: Callable[[Case], None]) -> None:
    case = Case()
    arrange(case)
    assert case.findings() == []


def stale_by_id(case: Case) -> None:
    case.read(Kind.BY_ID, 2.1, 404, {"error_code": 40403})


def another_schema_by_id(case: Case) -> None:
    case.read(Kind.BY_ID, 2.1, 200, {"schema": ANOTHER})


def stale_latest(case: Case) -> None:
    case.append_version(2, 2, ANOTHER)
    case.requests.append(
        Request(
            Kind.REGISTER,
            0,
            "a",
            2.5,
            3.0,
            status=200,
            answer={"id": 2, "version": 2},
            schema=ANOTHER,
            offset=3,
        )
    )
    case.read(Kind.LATEST, 3.1, 200, {"version": 1})


def stale_list(case: Case) -> None:
    case.read(Kind.LIST, 2.1, 404, {"error_code": 40401})


def deleted_and_shown(case: Case) -> None:
    case.append_delete()
    case.deleted()
    case.read(Kind.LIST, 6.1, 200, [1])


def lost(case: Case) -> None:
    case.log.pop()


def bound_to_another_id(case: Case) -> None:
    case.log.pop()
    case.append_version(1, 5, TEXT)


def lost_delete(case: Case) -> None:
    case.deleted()


def acknowledged_before_it_stood(case: Case) -> None:
    case.requests.clear()
    case.registered(offset=1)


def failed_and_there(case: Case) -> None:
    case.append_version(2, 2, ANOTHER)
    case.registered(status=500, answer={"error_code": 50003}, schema=ANOTHER)


def failed_delete_and_there(case: Case) -> None:
    case.append_delete()
    case.deleted(status=500, answer={"error_code": 50004})


def doubled(case: Case) -> None:
    case.append_version(2, 1, TEXT)


def id_given_twice(case: Case) -> None:
    case.append_version(2, 1, ANOTHER)


def id_that_shrinks(case: Case) -> None:
    case.append_version(2, 9, ANOTHER)
    case.append_version(3, 8, '"float"')


def stores_that_differ(case: Case) -> None:
    case.digests.append((2, 3, "z"))


def older_epoch(case: Case) -> None:
    case.append(BARRIER_KEY, b"{}", (7, 1))
    case.append_version(2, 2, ANOTHER, (7, 0))


def replaced_producer(case: Case) -> None:
    case.append(BARRIER_KEY, b"{}", (8, 0))
    case.append_version(2, 2, ANOTHER, (8, 0))
    case.append_version(3, 3, '"float"', (7, 0))


def nobodys_batch(case: Case) -> None:
    case.append_version(2, 2, ANOTHER, (-1, -1))


UNSOUND = (
    stale_by_id, another_schema_by_id, stale_latest, stale_list, deleted_and_shown, lost, bound_to_another_id,
    lost_delete, acknowledged_before_it_stood, failed_and_there, failed_delete_and_there, doubled,
    id_given_twice, id_that_shrinks, stores_that_differ, older_epoch, replaced_producer, nobodys_batch,
)  # fmt: skip


@pytest.mark.parametrize("spoil", UNSOUND, ids=lambda each: each.__name__)
def test_a_fault_is_found(spoil: Callable[[Case], None]) -> None:
    case = Case()
    spoil(case)
    assert len(case.findings()) == 1, case.findings()
