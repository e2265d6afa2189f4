"""Ids over HTTP: who may import an id far above all others, what happens at the end, and releases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from registry.domain.decide.ids import FAR
from registry.domain.log_format import records, values
from registry.domain.model import ID_MAX
from tests.api.driver import Api, Reply, record
from tests.api.permitting import PermittingApi, rule

RULES = (
    rule("ann", "operator", "a-*", ":.c:a-*"),
    rule("whole", "operator", "*"),
    rule("of-c", "operator", ":.c:*"),
    rule("dev", "developer", "a-*"),
)


@pytest.fixture
def ruled() -> Iterator[PermittingApi]:
    with PermittingApi("".join(RULES)) as found:
        yield found


def schema(schema_id: int, name: str = "R") -> dict[str, Any]:
    return {"schema": record(name), "id": schema_id, "version": 1}


def import_as(api: PermittingApi, user: str, subject: str, schema_id: int, name: str = "R") -> Reply:
    if api.put(f"/mode/{subject}", {"mode": "IMPORT"}).status != 200:
        raise AssertionError(subject)
    return api.request("POST", f"/subjects/{subject}/versions", schema(schema_id, name), user=user)


def test_an_operator_of_a_prefix_cannot_use_up_the_ids_of_the_context(ruled: PermittingApi) -> None:
    assert ruled.register("b", record("B")) == 1
    refused = import_as(ruled, "ann", "a-1", ID_MAX)
    assert refused.status == 403
    assert refused.error == (
        403,
        40382,
        f"Importing id {ID_MAX} would skip more than {FAR} unused ids of the default context; this requires "
        "the permission mode on the whole context",
    )
    assert import_as(ruled, "ann", ":.c:a-1", FAR + 2).error[1] == 40382
    assert import_as(ruled, "ann", "a-1", FAR).status == 200
    assert import_as(ruled, "whole", "a-2", 5 * FAR, "S").status == 200
    assert import_as(ruled, "of-c", ":.c:a-1", ID_MAX).status == 200


@pytest.mark.parametrize("mode", ["IMPORT", "READWRITE"])
def test_an_association_brings_no_id(ruled: PermittingApi, mode: str) -> None:
    """So it needs no check: its schema is registered only where ids are not taken from clients."""
    wanted = {"associationType": "value", "schema": schema(ID_MAX), "lifecycle": "STRONG"}
    body = {"resourceName": "a-1", "resourceNamespace": "c", "resourceId": "id", "resourceType": "topic"}
    assert ruled.put("/mode/:.c:a-1-value", {"mode": mode}).status == 200
    ruled.request("POST", "/associations", {**body, "associations": [wanted]}, user="ann")
    assert all(each["highest"] == each["reserved"] == 0 for each in ruled.get("/admin/ids").json)


def test_without_rules_any_id_can_be_imported_and_registrations_go_on(api: Api) -> None:
    api.put("/mode/s", {"mode": "IMPORT"})
    assert api.post("/subjects/s/versions", schema(ID_MAX)).status == 200
    assert api.register("t", record("T")) == 1
    # The reservation at the end was of one id, the next one of twice the first batch.
    assert api.get("/admin/ids").json == [
        {
            "context": ".", "highest": ID_MAX, "reserved": ID_MAX, "used": 41 / ID_MAX,
            "free": [{"from": 41, "to": ID_MAX - 1}],
        }
    ]  # fmt: skip


def test_used_up_ids_are_refused_until_some_are_released(api: Api) -> None:
    assert api.register("s", record("R")) == 1
    # As a release wrote it that did not know free ranges.
    api.backend.append(records.reservation_key("."), values.reservation_value(ID_MAX))
    api.backend.ids.restart()
    refused = api.post("/subjects/t/versions", {"schema": record("R2")})
    assert refused.error[:2] == (409, 40982)
    assert api.register(":.c:s", record("R2")) == 1
    assert api.post("/admin/ids/release", {"from": 1}).error == (
        409,
        40983,
        f"The ids 1 to {ID_MAX} of the default context cannot be released: the id 1 is in use. Permanently "
        "delete all versions with these ids first",
    )
    released = {"context": ".", "highest": 1, "reserved": 20, "used": 20 / ID_MAX, "free": []}
    assert api.post("/admin/ids/release", {"from": 21}).json == released
    assert api.register("t", record("R2")) == 21


def test_releases_are_checked(api: Api) -> None:
    def code(**body: Any) -> int:
        return int(api.post("/admin/ids/release", body).error[1])

    assert code() == 422
    for bounds in ({"from": 0}, {"from": 9, "to": 8}, {"from": 1, "to": 0}, {"from": -1}):
        assert code(**bounds) == 422
    assert code(**{"from": 2**31}) == 400
    assert code(**{"from": 1}, context="c") == code(**{"from": 1}, context=".c:d") == 422
    assert code(**{"from": 1}, context=".\t0000000009") == 42208
    assert code(**{"from": 1}, context=["."]) == 400
    api.register("s", record("R"))
    assert code(**{"from": 1}) == 40983
    assert code(**{"from": 1}, context="") == 40983
    log = len(api.backend.log)
    assert api.post("/admin/ids/release", {"from": 1, "context": ".none"}).json["reserved"] == 0
    assert len(api.backend.log) == log
