"""Requests that the fast path hands to the application get the answers that they would get through ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

import orjson
import pytest

from registry.api.backend import ApiSettings
from registry.api.browsers import Cors, ResponseHeaders
from registry.audit.log import RequestEntry
from registry.base.observe.metrics import Headers
from registry.domain.parsing.schema_queries import Source
from registry.http1.messages import Answer, Client, Request
from registry.reader.fast_path.dispatch import FastPaths
from tests.api.driver import Api, record

V1 = record("R", "x")
LONG = record("R", *(f"field{number}" for number in range(60)))
REFERENCES = [{"name": "x", "subject": "a", "version": 1}, {"name": "y"}]
BODIES = (
    *(
        orjson.dumps({"schema": schema})
        for schema in (V1, record("R", "x", "y"), LONG, "nonsense", "", '"int"')
    ),
    orjson.dumps({"schema": V1, "schemaType": "JSON"}),
    orjson.dumps({"schema": V1, "schemaType": "NONE"}),
    orjson.dumps({"schema": V1, "references": REFERENCES}),
    orjson.dumps({"schema": V1, "metadata": {"properties": {"p": "1"}}, "ruleSet": {"domainRules": []}}),
    orjson.dumps({"schema": V1, "version": "x"}),
    orjson.dumps({"schema": V1, "id": 7, "version": 1}),
    orjson.dumps({"schemaTagsToAdd": [], "propagateSchemaTags": True}),
    orjson.dumps({"schema": V1}).decode().encode("utf-16"),
    b"{",
    b"",
    b"null",
    b"[]",
)
PATHS = (
    "/subjects/{}/versions",
    "/subjects/{}",
    "/compatibility/subjects/{}/versions",
    "/compatibility/subjects/{}/versions/latest",
    "/compatibility/subjects/{}/versions/x",
    "/subjects/{}/versions/1/tags",
    "/subjects/{}/nothing",
)
SUBJECTS = ("a", "a%2Fb", ":.c:a", ":.c:", "aliased", "readonly", "new", "%00", "%zz")
QUERIES = ("", "?normalize=true", "?verbose=true&level=FULL", "?format=resolved&deleted=true", "?x=%zz")
HEADERS = (
    [],
    [(b"accept", b"application/json"), (b"accept-encoding", b"gzip")],
    [(b"accept", b"text/plain;q=1, application/json;q=0.5")],
)


@contextmanager
def registry(settings: ApiSettings, entries: list[RequestEntry]) -> Iterator[Api]:
    with Api(None, settings, audit=entries.extend) as api:
        api.register("a", V1)
        api.register(":.c:a", V1)
        api.register("readonly", V1)
        api.put("/config/aliased", {"alias": "a"})
        api.put("/mode/readonly", {"mode": "READONLY"})
        entries.clear()
        yield api


def fast_paths(api: Api, settings: ApiSettings, *, registered: bool = False) -> FastPaths:
    return FastPaths(
        api.backend.view,
        api.app,  # type: ignore[arg-type]
        seen=lambda: len(api.backend.log),
        cache_max_age_s=0,
        registered=registered,
        cors=Cors(settings.cors_origins),
        extra=ResponseHeaders(settings.response_headers),
    )


def handed(
    api: Api, fast: FastPaths, target: str, body: bytes, headers: list[tuple[bytes, bytes]]
) -> tuple[int, dict[str, str], bytes] | None:
    request = Request(b"POST", target.encode(), Headers(headers), body, "1.1", True)
    running = fast(request, Client("127.0.0.1", 1))
    if running is None:
        return None
    assert asyncio.iscoroutine(running)
    answer = api._runner.run(running)
    assert isinstance(answer, Answer)
    lines = answer.headers.decode("latin-1").split("\r\n")
    found = dict(line.split(": ", 1) for line in lines if line)
    assert len(found) == len(lines) - 1, lines
    return answer.status, found, answer.body


@pytest.mark.parametrize(
    "settings",
    [
        ApiSettings(),
        ApiSettings(keep_rule_sets=False, cors_origins=("*",), cluster=True),
        ApiSettings(response_headers=(("set", "Cache-Control", "private"), ("add", "X-Own", "1"))),
    ],
    ids=["plain", "cors", "response headers"],
)
def test_answers_and_audit_entries_are_those_through_asgi(settings: ApiSettings) -> None:
    entries: list[RequestEntry] = []
    expected_entries: list[RequestEntry] = []
    count = 0
    with registry(settings, entries) as api, registry(settings, expected_entries) as other:
        fast = fast_paths(api, settings)
        for number, (body, path, subject) in enumerate(product(BODIES, PATHS, SUBJECTS)):
            target = path.format(subject) + QUERIES[number % len(QUERIES)]
            headers = [(b"x-request-id", b"%d" % number), *HEADERS[number % len(HEADERS)]]
            answer = handed(api, fast, target, body, headers)
            sent = [(name.decode(), value.decode()) for name, value in headers]
            expected = other.request("POST", target, body, sent)
            if answer is None:
                api.request("POST", target, body, sent)
                continue
            count += 1
            more = dict(expected.headers)
            assert more.pop("content-length") == str(len(expected.body))
            status, found, text = answer
            assert (status, text) == (expected.status, expected.body), (target, body)
            assert {name.lower(): value for name, value in found.items()} == more, (target, body)
        assert count > 600
        assert entries == expected_entries
        assert len(api.backend.log) == len(other.backend.log)


BAD_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"x","type":"int","default":"no"}]}'


class Handed(NamedTuple):
    """A POST of a schema that is not registered."""

    path: bytes
    schema: str
    as_new: bool
    status: int


@pytest.mark.parametrize(
    "case",
    [
        Handed(b"/subjects/a/versions", record("R", "x", "y"), as_new=True, status=200),
        # It is not valid as a new one.
        Handed(b"/subjects/a/versions", BAD_DEFAULT, as_new=False, status=422),
        Handed(b"/subjects/a", record("R", "x", "y"), as_new=False, status=404),
    ],
    ids=["new", "stored", "lookup"],
)
def test_a_schema_that_the_fast_path_has_parsed_is_not_parsed_again(case: Handed) -> None:
    with registry(ApiSettings(), []) as api:
        api.backend.rows.applied = lambda: 0
        fast = fast_paths(api, ApiSettings(), registered=True)
        body = orjson.dumps({"schema": case.schema})
        running = fast(Request(b"POST", case.path, Headers(), body, "1.1", True), Client())
        assert asyncio.iscoroutine(running)
        parser = api.app.parser  # type: ignore[attr-defined]
        assert parser.cached_schema(Source("AVRO", case.schema)) is not None
        as_new = parser.cached_schema(Source("AVRO", case.schema, new=True))
        assert (as_new is not None) is case.as_new
        assert api._runner.run(running).status == case.status


def test_an_unexpected_error_is_logged_and_recorded(caplog: pytest.LogCaptureFixture) -> None:
    entries: list[RequestEntry] = []
    with registry(ApiSettings(), entries) as api:
        fast = fast_paths(api, ApiSettings())
        api.backend.submit = None
        answer = handed(api, fast, "/subjects/new/versions", BODIES[0], [])
    assert answer is not None
    assert answer[0] == 500
    assert answer[2] == b'{"error_code":500,"message":"Internal Server Error"}'
    assert [each.status for each in entries] == [500]
    assert "unexpected error in POST /subjects/new/versions" in caplog.text


def test_rule_sets_are_ignored_where_the_fast_path_has_read_the_body() -> None:
    settings = ApiSettings(keep_rule_sets=False)
    rules = {
        "domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]
    }
    body = orjson.dumps({"schema": record("R", "x", "y"), "ruleSet": rules})
    with registry(settings, []) as api:
        api.backend.rows.applied = lambda: 0
        answer = handed(api, fast_paths(api, settings, registered=True), "/subjects/a/versions", body, [])
        assert answer is not None
        assert (answer[0], "ruleSet" in orjson.loads(answer[2])) == (200, False)
        assert "ruleSet" not in api.get("/subjects/a/versions/2")
