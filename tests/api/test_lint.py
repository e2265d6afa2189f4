"""``POST /schemas/lint``: the texts that would be stored, and broken rules, without a registration."""

from __future__ import annotations

from typing import Any

import orjson

from registry.api.backend import ApiSettings
from registry.domain.policies import parse
from tests.api.driver import Api, Reply
from tests.api.permitting import PermittingApi, rule
from tests.unit.small_registry import record

POLICIES = parse(
    '[[policy]]\nsubjects = ["s"]\nlint_errors = ["snake_case_fields"]\nlint_warnings = ["namespace"]'
)


def lint(api: Api, schema: str, subject: str = "", **more: Any) -> Reply:
    return api.post(f"/schemas/lint?subject={subject}", {"schema": schema, **more})


def test_the_texts_that_would_be_stored_are_returned_and_nothing_is_registered(api: Api) -> None:
    found = lint(api, '{"type": "object", "title": "T"}', schemaType="JSON").json
    assert found == {
        "valid": True,
        "schema": '{"type":"object","title":"T"}',
        "normalized": '{"title":"T","type":"object"}',
        "findings": [],
    }
    assert api.get("/subjects").json == []


def test_broken_rules_of_the_subject_are_reported_with_their_severity_and_fix() -> None:
    with Api(settings=ApiSettings(policies=lambda: POLICIES)) as api:
        schema = record("R", "orderId")
        findings = lint(api, schema, "s").json["findings"]
        assert [(each["severity"], each["rule"], each["path"]) for each in findings] == [
            ("error", "snake_case_fields", "R.orderId"),
            ("warning", "namespace", "#"),
        ]
        assert findings[0]["fix"] == "use lower-case words joined by underscores"
        assert lint(api, schema, "t").json["findings"] == lint(api, schema).json["findings"] == []


def test_references_are_found_in_the_context_of_the_subject(api: Api) -> None:
    api.register(":.x:t", record("Other", "a"))
    fields = [{"name": "b", "type": "Other"}]
    schema = orjson.dumps({"type": "record", "name": "R", "fields": fields}).decode()
    references = [{"name": "Other", "subject": "t", "version": -1}]
    assert lint(api, schema, ":.x:s", references=references).json["valid"]
    assert not lint(api, schema, "s", references=references).json["valid"]


def test_an_invalid_or_empty_schema_has_a_reason(api: Api) -> None:
    for schema, schema_type, reason in (
        ("nonsense", "AVRO", "Unexpected 'nonsense' at line 1, column 1"),
        (" ", "AVRO", "Empty schema"),
        ("{}", "OTHER", "Invalid schema type OTHER"),
    ):
        found = lint(api, schema, schemaType=schema_type).json
        assert not found["valid"]
        assert reason in found["message"]


def test_the_rules_of_a_subject_need_the_permission_to_check_schemas() -> None:
    with PermittingApi(rule("bob", "reader", "own-*")) as api:
        body = {"schema": '"int"'}
        for subject, status in (("own-value", 200), ("other-value", 403), ("", 200)):
            headers = {"content-type": "application/json"}
            reply = api.request("POST", f"/schemas/lint?subject={subject}", body, headers, user="bob")
            assert reply.status == status
