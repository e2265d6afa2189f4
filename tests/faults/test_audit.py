"""The check of audit logs finds what it is for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from .audit import unrecorded
from .history import Kind, Request

WRITE = Request(Kind.REGISTER, 1, "s", 1.0, 2.0, status=200, schema="a", request_id="w")
UNKNOWN = replace(WRITE, status=0, request_id="")


def test_one_entry_where_the_write_was_acknowledged_is_right() -> None:
    refused = replace(WRITE, status=403, request_id="refused")
    read = replace(WRITE, kind=Kind.LATEST, request_id="read")
    assert list(unrecorded([WRITE, refused, read], [Counter(), Counter("w")])) == []


@pytest.mark.parametrize(
    "logs",
    [
        [Counter(), Counter()],
        [Counter(), Counter("ww")],
        [Counter("w"), Counter()],
        [Counter("w"), Counter("w")],
    ],
    ids=["missing", "doubled", "elsewhere", "everywhere"],
)
def test_every_other_number_is_found(logs: list[Counter[str]]) -> None:
    assert len(list(unrecorded([WRITE], logs))) == 1


def test_a_registration_after_one_with_an_unknown_outcome_may_have_found_its_schema() -> None:
    assert list(unrecorded([UNKNOWN, WRITE], [Counter(), Counter()])) == []
    assert len(list(unrecorded([UNKNOWN, WRITE], [Counter("w"), Counter()]))) == 1
