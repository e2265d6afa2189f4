"""Answers from the rows of another log: no schema that the log is not proven to hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from registry.api.backend import ApiSettings
from registry.api.operations import Operation
from registry.domain.log_format.lineage import Mismatch
from tests.api.driver import Api, ListBackend, Reply, record
from tests.api.test_permissions import TABLE, Place

ID, TEXT = 77_777, record("Distinctive", "telltale")
PLACE = Place("own-value")
# By which the schema could be told.
SIGNS = (str(ID).encode(), b"telltale")
NOTHING, ELSEWHERE = Mismatch("the topic was created again"), Mismatch("another cluster", served=False)
# Without the feed, whose pages name the log that their events are from.
ANSWERED = [each for each in TABLE if each.path != "/changes"]


@pytest.fixture
def api() -> Iterator[Api]:
    settings = ApiSettings(cluster=True, local_reads=True)
    with Api(ListBackend(settings), settings) as found:
        assert found.put(f"/mode/{PLACE.subject}", {"mode": "IMPORT"}).status == 200
        imported = {"schema": TEXT, "id": ID, "version": 1}
        assert found.post(f"/subjects/{PLACE.subject}/versions", imported).status == 200
        assert found.put(f"/mode/{PLACE.subject}", {"mode": "READWRITE"}).status == 200
        yield found


def guid(api: Api) -> str:
    return str(api.get(f"/schemas/ids/{ID}?fetchMaxId=false").json["guid"])


def target(operation: Operation, guid: str) -> str:
    return PLACE.target(operation).replace("/ids/1", f"/ids/{ID}").replace("0" * 32, guid)


def body(operation: Operation) -> Any:
    given = PLACE.body(operation)
    # What is asked for by its text, and must not be found.
    return {"schema": TEXT} if operation.path in LOOKUPS else given


LOOKUPS = ("/subjects/{subject}", "/subjects/{subject}/versions")


def send(api: Api, operation: Operation, guid: str, more: str = "") -> Reply:
    headers = {"content-type": "application/json"} if operation.request_schema else {}
    return api.request(operation.method, target(operation, guid) + more, body(operation), headers)


def tells(reply: Reply) -> bool:
    return any(sign in reply.body for sign in SIGNS)


@pytest.mark.parametrize("mismatch", [NOTHING, ELSEWHERE], ids=["nothing proven", "another cluster"])
@pytest.mark.parametrize("operation", ANSWERED, ids=lambda each: f"{each.method} {each.path}")
def test_no_operation_reports_a_schema_that_the_log_is_not_proven_to_hold(
    api: Api, operation: Operation, mismatch: Mismatch
) -> None:
    known = guid(api)
    read = operation.method == "GET" or operation.path == "/subjects/{subject}"
    told = read and operation.method != "DELETE" and tells(send(api, operation, known))
    by_id = operation.path.startswith(("/schemas/ids/", "/schemas/guids/"))
    api.backend.mismatch, api.backend.fresh = mismatch, False
    reply = send(api, operation, known)
    assert not tells(reply), reply.body
    if told or by_id:
        assert reply.error[:2] == (503, 503)
        assert mismatch.reason in reply.error[2]
        assert reply.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    "query", ["?subject=own-value", "?format=resolved", "?subject=:.:", "?fetchMaxId=true"]
)
def test_parameters_change_nothing_in_that(api: Api, query: str) -> None:
    assert tells(api.get(f"/schemas/ids/{ID}{query}"))
    api.backend.mismatch, api.backend.fresh = NOTHING, False
    assert api.get(f"/schemas/ids/{ID}{query}").status == 503


def test_what_the_log_is_proven_to_hold_is_answered_with_a_warning(api: Api) -> None:
    younger = api.register("younger", record("Younger", "a"))
    offset = len(api.backend.log) - 1
    api.backend.mismatch, api.backend.fresh = Mismatch("the end was cut off", common=offset), False
    known = api.get(f"/schemas/ids/{ID}")
    assert known.status == 200
    assert known.headers["warning"] == '110 - "Response is Stale"'
    assert api.get(f"/schemas/ids/{younger}").error[:2] == (503, 503)
    listed = api.get("/subjects")
    assert (listed.json, listed.headers["warning"]) == (["own-value"], '110 - "Response is Stale"')
    assert api.get("/subjects/younger/versions").status == 503
    api.backend.mismatch, api.backend.fresh = None, True
    assert "warning" not in api.get(f"/schemas/ids/{ID}").headers
    assert api.get(f"/schemas/ids/{younger}").status == 200
