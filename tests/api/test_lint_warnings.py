"""Lint rules that a policy only warns about: a header for each finding of a new schema."""

from __future__ import annotations

from typing import Any

import orjson

from registry.api.backend import ApiSettings
from registry.domain.policies import parse
from tests.api.driver import Api
from tests.unit.small_registry import record

POLICIES = parse('[[policy]]\nsubjects = ["s"]\nlint_warnings = ["snake_case_fields"]')
SETTINGS = ApiSettings(policies=lambda: POLICIES)


def register(api: Api, subject: str, schema: str, **more: Any) -> tuple[int, list[str]]:
    """Return the status, and the header if there is one."""
    reply = api.post(f"/subjects/{subject}/versions", {"schema": schema, **more})
    return reply.status, [reply.headers["x-registry-lint"]] if "x-registry-lint" in reply.headers else []


def warning(name: str) -> str:
    return (
        f"snake_case_fields at R.{name}: the field's name `{name}` is not in snake_case; "
        "use lower-case words joined by underscores"
    )


def test_a_new_schema_is_registered_with_a_warning() -> None:
    with Api(settings=SETTINGS) as api:
        assert register(api, "s", record("R", "orderId")) == (200, [warning("orderId")])
        assert register(api, "s", record("R", "order_id?", "orderId")) == (200, [warning("orderId")])


def test_a_schema_that_is_registered_already_or_of_another_subject_has_none() -> None:
    with Api(settings=SETTINGS) as api:
        register(api, "s", record("R", "orderId"))
        assert register(api, "s", record("R", "orderId")) == (200, [])
        assert register(api, "t", record("R", "orderId")) == (200, [])


def test_a_schema_with_references_is_linted_without_them() -> None:
    with Api(settings=SETTINGS) as api:
        register(api, "t", record("Other", "innerId"))
        schema = {"type": "record", "name": "R", "fields": [{"name": "theOther", "type": "Other"}]}
        references = [{"name": "Other", "subject": "t", "version": 1}]
        status, headers = register(api, "s", orjson.dumps(schema).decode(), references=references)
        assert (status, headers) == (200, [warning("theOther")])


def test_line_breaks_in_names_do_not_end_a_header() -> None:
    schema = orjson.dumps({"type": "object", "properties": {"a\r\nSet-Cookie: x=\u00e9": {}}}).decode()
    with Api(settings=SETTINGS) as api:
        reply = api.post("/subjects/s/versions", {"schemaType": "JSON", "schema": schema})
        assert r"object.a\r\nSet-Cookie: x=\xe9:" in reply.headers["x-registry-lint"]
        assert "set-cookie" not in reply.headers


def test_an_invalid_schema_is_refused_as_without_a_policy() -> None:
    with Api(settings=SETTINGS) as api:
        assert register(api, "s", '{"type": "record"}') == (422, [])
