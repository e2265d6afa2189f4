"""``GET /subjects/{subject}/versions/{version}/fields``."""

from __future__ import annotations

import json
from typing import Any

from registry.domain.parsing import querying
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import NOTHING, Source, facts
from registry.workers.process import answer_query
from registry.workers.worker import WorkRequest
from tests.api.driver import Api


def wide(count: int) -> str:
    fields = [{"name": f"f{at}", "type": "int", "doc": "d" * 50} for at in range(count)]
    return json.dumps({"type": "record", "name": "Wide", "fields": fields})


def registered(api: Api, subject: str, schema: str, **more: Any) -> int:
    found: int = api.post(f"/subjects/{subject}/versions", {"schema": schema, **more}).json["id"]
    return found


def test_fields_come_in_parts_with_the_version_that_has_them(api: Api) -> None:
    given = registered(api, "wide", wide(30))
    found = api.get("/subjects/wide/versions/latest/fields?limit=2&offset=29")
    assert found.json == {
        "subject": "wide", "version": 1, "id": given, "schemaType": "AVRO", "total": 31, "offset": 29,
        "fields": [
            {"kind": "field", "path": f"f{at}", "name": f"f{at}", "type": "int", "doc": "d" * 50,
             "required": True}
            for at in (28, 29)
        ],
    }  # fmt: skip
    assert (
        api.get("/subjects/wide/versions/1/fields", **{"if-none-match": found.headers["etag"]}).status == 304
    )
    whole = api.get("/subjects/wide/versions/1/fields?entity=true&limit=1").json
    assert whole["entity"] == api.get("/subjects/wide/versions/1").json
    assert api.get("/subjects/wide/versions/1/fields?offset=-1").error[:2] == (422, 422)
    assert api.get("/subjects/wide/versions/2/fields").error[:2] == (404, 40402)


def test_types_of_references_are_only_named(api: Api) -> None:
    registered(
        api, "address", '{"type":"record","name":"a.Address","fields":[{"name":"zip","type":"string"}]}'
    )
    uses = '{"type":"record","name":"Uses","fields":[{"name":"home","type":"a.Address"}]}'
    reference = {"name": "a.Address", "subject": "address", "version": 1}
    registered(api, "uses", uses, references=[reference])
    api.request("DELETE", "/subjects/uses")
    found = api.get("/subjects/uses/versions/1/fields?deleted=true").json["fields"]
    assert [(each["path"], each["type"]) for each in found] == [("", "record"), ("home", "Address")]
    moment = len(api.backend.log) - 2
    assert api.get(f"/subjects/uses/versions/1/fields?atOffset={moment}").json["fields"] == found


def test_a_text_that_is_no_schema_is_refused(api: Api) -> None:
    registered(api, "s", wide(1))
    key, value = api.backend.log[-1].key, json.loads(api.backend.log[-1].value)
    api.backend.append(key, json.dumps(value | {"schema": "{"}).encode())
    status, code, message = api.get("/subjects/s/versions/1/fields").error
    assert (status, code) == (422, 42201)
    assert message.startswith("The fields of the stored schema cannot be read: ")
    api.backend.append(key, json.dumps(value | {"schemaType": "OTHER"}).encode())
    assert api.get("/subjects/s/versions/1/fields").json["fields"] == []


def test_a_worker_lists_the_fields_of_long_texts() -> None:
    parser, source = Parser(), Source("AVRO", wide(3000))
    steps = querying.fields(source, 10, 12)
    lacking = parser.attempt(steps, 1000, 1000, NOTHING)
    assert isinstance(lacking, Unanswered)
    known = answer_query(WorkRequest(lacking.query, 5.0, 5.0), Parser()).known
    assert known is not None
    again = querying.fields(source, 10, 12)
    page = parser.attempt(again, 1000, 1000, facts(lacking.query, known))
    assert not isinstance(page, Unanswered)
    assert (page.total, [each.name for each in page.fields]) == (3001, ["f9", "f10"])
