"""Any input: no 500, errors in the documented shape, answers as described, and refusals without effect."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from registry.api.backend import ApiSettings
from registry.domain.errors import SEARCH_OFF
from registry.webhooks.message import Signer
from tests.api.driver import Api, Reply, record
from tests.fuzz.strategies import bodies, requests

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
V1 = "application/vnd.schemaregistry.v1+json"


def begun() -> Api:
    """Return a registry with objects of every kind."""
    api = Api(settings=ApiSettings(webhook_signer=Signer("a secret of the cluster")))
    api.register("s", '"string"')
    api.register("r", record("R", "a"), metadata={"properties": {"owner": "me"}})
    api.register("r", record("R", "a", "b"))
    api.register(":.c:s", '"int"')
    api.register(
        "user",
        '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}',
        references=[{"name": "R", "subject": "r", "version": 1}],
    )
    api.delete("/subjects/r/versions/2")
    api.put("/config/r", {"compatibility": "FULL", "normalize": True})
    api.put("/config/nick", {"alias": "s"})
    api.put("/mode/:.c:", {"mode": "IMPORT"})
    api.put("/admin/webhooks/h", {"url": "https://example.org/h"}, content_type="application/json")
    api.backend.append(b"\xff", b"odd")
    return api


# Waits that are allowed, but would take the test too long.
_WAIT = re.compile(rb"wait_ms=[^&]*")


@cache
def described() -> dict[str, Any]:
    with Api() as api:
        found: dict[str, Any] = api.get("/openapi.json").json
    return found


@cache
def schema() -> Any:
    return schemathesis.openapi.from_dict(described())


def check(
    api: Api, method: str, target: str | bytes, body: bytes, headers: dict[str, str] | None = None
) -> Reply:
    """Send one request, and check its answer against the rules for every answer."""
    before = api.backend.digest()
    raw = target if isinstance(target, bytes) else target.encode()
    reply = api.request(method, _WAIT.sub(b"wait_ms=1", raw), body, headers)
    # No index is kept here.
    assert 200 <= reply.status < 500 or reply.error[1] == SEARCH_OFF.code, (reply.status, reply.body)
    assert {"x-request-id", "x-registry-offset", "cache-control"} <= reply.headers.keys()
    if reply.status >= 400:
        assert api.backend.digest() == before
        if method != "HEAD":
            status, code, text = reply.error
            assert str(code).startswith(str(status))
            assert text
    return reply


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_likely_and_unlikely_requests(data: st.DataObject) -> None:
    wanted = requests(described())
    with begun() as api:
        for method, target, body in data.draw(st.lists(wanted, min_size=10, max_size=20)):
            check(api, method, target, body)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(METHODS) | st.text("ABCXYZ", min_size=1, max_size=8),
    st.binary(max_size=30)
    | st.builds(
        bytes.__add__,
        st.sampled_from([b"/subjects/", b"/schemas/ids/", b"/contexts/", b"/config?"]),
        st.binary(max_size=20),
    ),
    st.binary(max_size=40) | bodies("RegisterSchemaRequest"),
    st.dictionaries(
        st.sampled_from(
            [
                "accept",
                "content-type",
                "x-registry-min-offset",
                "if-none-match",
                "content-length",
                "accept-encoding",
                "x-request-id",
            ]
        ),
        st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)
        | st.sampled_from([V1, "*/*", "gzip", "5", "application/json;q=.5"]),
    ),
)
def test_arbitrary_bytes(method: str, target: bytes, body: bytes, headers: dict[str, str]) -> None:
    with begun() as api:
        check(api, method, b"/" + target, body, headers)


def operations() -> list[tuple[str, str]]:
    return [
        (path, method) for path, found in sorted(described()["paths"].items()) for method in sorted(found)
    ]


@pytest.mark.parametrize(("path", "method"), operations())
def test_answers_are_as_described(path: str, method: str) -> None:
    """Requests and answers match the OpenAPI document."""
    operation = schema()[path][method]

    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(operation.as_strategy())
    def answers(case: Any) -> None:
        values = {name: quote(str(value), safe=":") for name, value in case.path_parameters.items()}
        query = "&".join(
            f"{name}={quote(str(each).lower() if isinstance(each, bool) else str(each))}"
            for name, value in (case.query or {}).items()
            for each in (value if isinstance(value, list) else [value])
        )
        target = path.format(**values) + "?" + query
        sent = "requestBody" in described()["paths"][path][method]
        try:
            body = orjson.dumps(case.body) if sent else b""
        except (orjson.JSONEncodeError, TypeError):
            return
        with begun() as api:
            hold_to_description(path, method, check(api, method.upper(), target, body))

    answers()


def hold_to_description(path: str, method: str, reply: Reply) -> None:
    responses = described()["paths"][path][method]["responses"]
    response = responses.get(str(reply.status), responses["default"])
    assert reply.status >= 400 or str(reply.status) in responses
    if "content" in response:
        wanted = response["content"][reply.headers["content-type"].split(";")[0]]["schema"]
        if wanted["$ref"].endswith(("/SchemaText", "/Metrics")):
            return
        document = {**wanted, "components": described()["components"]}
        lines = reply.headers["content-type"] == "application/x-ndjson"
        for each in map(orjson.loads, reply.body.splitlines()) if lines else [reply.json]:
            Draft202012Validator(document).validate(each)
    else:
        assert reply.body == b""


def test_the_document_is_valid() -> None:
    schema().validate()
