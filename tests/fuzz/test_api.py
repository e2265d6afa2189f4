"""Whatever is sent: no 500, errors in shape, answers as described, and no effect of what is refused."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.api.driver import Api, Reply, record

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
V1 = "application/vnd.schemaregistry.v1+json"


def begun() -> Api:
    """A registry with something in every corner."""
    api = Api()
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
    api.backend.append(b"\xff", b"odd")
    return api


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
    """Send one request, and hold its answer to what every answer must be."""
    before = api.backend.digest()
    reply = api.request(method, target, body, headers)
    assert 200 <= reply.status < 500, (reply.status, reply.body)
    assert {"x-request-id", "x-registry-offset", "cache-control"} <= reply.headers.keys()
    if reply.status >= 400:
        assert api.backend.digest() == before
        if method != "HEAD":
            status, code, text = reply.error
            assert str(code).startswith(str(status))
            assert text
    return reply


def subjects() -> st.SearchStrategy[str]:
    known = st.sampled_from(
        ["s", "r", "user", "nick", ":.c:s", ":.c:", ":.:", ":.__GLOBAL:", ":*:", "", "__EMPTY"]
    )
    return known | st.text(max_size=20)


VALUES: dict[str, st.SearchStrategy[str]] = {
    "subject": subjects(),
    "version": st.sampled_from(["latest", "-1", "1", "2", "0", "LATEST ", "x", "9" * 30])
    | st.text(max_size=5),
    "id": st.integers(-1, 6).map(str) | st.sampled_from(["2147483647", "2147483648", "+1", "x", "٣"]),
    "guid": st.sampled_from(["095d71cf-1255-6b9d-5e33-0ad575b3df5d", "x", "0" * 32]),
    "context": st.sampled_from([".", ".c", "c", ":.c:", "d", ":", "a:b"]) | st.text(max_size=5),
}
NUMBERS = st.integers(-3, 5).map(str) | st.sampled_from(["", "x", "2147483647", "99999999999", "1e3"])
WORDS = st.sampled_from(["true", "TRUE", "false", "1", "", "resolved", "qualified", "*"]) | subjects()

SCHEMAS = st.sampled_from([
    '"string"', "", " ", "null", "{}", "[]", '["null","int"]', record("R", "a"), record("R", "a", "b", "c"),
    "\x00",
    "[" * 5000, '{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}', '{"type":"enum"}', '"R"',
])  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
REFERENCES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just("R") | JSON,
        "subject": subjects() | JSON,
        "version": st.integers(-2, 3) | JSON,
    },
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.dictionaries(
            st.sampled_from(["confluent:version", "confluent:reserved", "g"]), st.sampled_from(["1", "a", ""])
        )
        | JSON,
        "tags": st.dictionaries(st.text(max_size=3), st.lists(st.text(max_size=3))) | JSON,
        "sensitive": st.lists(st.text(max_size=3)) | JSON,
    },
)
RULE = st.fixed_dictionaries({}, optional={
    "name": st.sampled_from(["r", "", "1", "a b"]) | JSON,
    "kind": st.sampled_from(["CONDITION", "TRANSFORM"]) | JSON,
    "mode": st.sampled_from(["WRITE", "UPGRADE"]) | JSON, "type": st.just("CEL") | JSON,
    "params": JSON, "tags": JSON,
    "disabled": JSON, "onSuccess": JSON,
})  # fmt: skip
RULES = st.fixed_dictionaries(
    {},
    optional={
        "domainRules": st.lists(RULE | JSON, max_size=2) | JSON,
        "migrationRules": JSON,
        "enableAt": JSON,
    },
)
BODIES = st.fixed_dictionaries({}, optional={
    "schema": SCHEMAS | JSON, "schemaType": st.sampled_from(["AVRO", "JSON", "avro"]) | JSON,
    "references": st.lists(REFERENCES | JSON, max_size=2) | JSON,
    "metadata": METADATA | JSON, "ruleSet": RULES | JSON,
    "version": st.integers(-2, 4) | JSON, "id": st.integers(-2, 6) | st.just(2**31 - 1) | JSON,
    "compatibility": st.sampled_from(["FULL", "none", "x"]) | JSON, "normalize": st.booleans() | JSON,
    "alias": subjects() | JSON,
    "compatibilityGroup": st.just("g") | JSON, "compatibilityPolicy": JSON,
    "validateFields": st.booleans() | JSON,
    "defaultMetadata": METADATA | JSON, "overrideRuleSet": RULES | JSON,
    "mode": st.sampled_from(["IMPORT", "READONLY", "READWRITE", "forward"]) | JSON,
    "requests": st.lists(JSON, max_size=2) | JSON, "associations": JSON,
}).map(orjson.dumps)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """A request to a resource that exists, with likely and unlikely values in every place."""
    path = draw(st.sampled_from(sorted(described()["paths"])))
    operations = described()["paths"][path]
    method = draw(st.sampled_from(sorted(operations)))
    for parameter in operations[method]["parameters"]:
        if parameter["in"] == "path":
            value = draw(VALUES.get(parameter["name"], subjects()))
            path = path.replace("{" + parameter["name"] + "}", quote(value, safe=":"))
    if draw(st.integers(0, 5)) == 0:
        path = "/contexts/" + quote(draw(VALUES["context"]), safe=":") + path
    pairs = []
    for parameter in operations[method]["parameters"]:
        if parameter["in"] == "query" and draw(st.booleans()):
            value = draw(NUMBERS if parameter["schema"]["type"] == "integer" else WORDS)
            pairs.append(f"{parameter['name']}={quote(value)}")
    body = draw(BODIES) if "requestBody" in operations[method] else b""
    return method.upper(), "?".join([path, "&".join(pairs)]), body


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(requests(), min_size=1, max_size=15))
def test_likely_and_unlikely_requests(found: list[tuple[str, str, bytes]]) -> None:
    with begun() as api:
        for method, target, body in found:
            check(api, method, target, body)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(METHODS) | st.text("ABCXYZ", min_size=1, max_size=8),
    st.binary(max_size=30)
    | st.builds(
        bytes.__add__,
        st.sampled_from([b"/subjects/", b"/schemas/ids/", b"/contexts/", b"/config?"]),
        st.binary(max_size=20),
    ),
    st.binary(max_size=40) | BODIES,
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
    """What the document says to send is sent, and what comes back is what the document says."""
    operation = schema()[path][method]

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), database=None)
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
        Draft202012Validator(document).validate(reply.json)
    else:
        assert reply.body == b""


def test_the_document_is_valid() -> None:
    schema().validate()
