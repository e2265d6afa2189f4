"""Behavior that all resources share: headers, media types, methods, bodies, and the shape of errors."""

from __future__ import annotations

import asyncio
import gzip
import logging
import uuid

import pytest

from registry.api.backend import ApiSettings
from registry.domain.errors import UNAVAILABLE
from tests.api.driver import Api, ListBackend

V1 = "application/vnd.schemaregistry.v1+json"


def test_the_root_is_an_empty_object(api: Api) -> None:
    for method in ("GET", "POST"):
        reply = api.request(method, "/")
        assert (reply.status, reply.body) == (200, b"{}")


def test_every_answer_has_the_standard_headers(api: Api) -> None:
    targets = ("/", "/subjects", "/nowhere", "/subjects/s/versions", "/health/live", "/subjects/%zz", "/node")
    for target in targets:
        headers = api.get(target).headers
        assert headers["x-xss-protection"] == "1; mode=block"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-registry-offset"] == "0"
        assert uuid.UUID(headers["x-request-id"]).version == 4
        assert "no-store" in headers["cache-control"]


def test_the_type_is_the_vendor_one_unless_another_is_asked_for(api: Api) -> None:
    assert api.get("/subjects").headers["content-type"] == V1
    assert api.get("/subjects", accept="*/*").headers["content-type"] == V1
    assert api.get("/subjects", accept="application/json").headers["content-type"] == "application/json"
    assert api.get("/nowhere").headers["content-type"] == V1


def test_errors_come_in_the_type_that_was_asked_for(api: Api) -> None:
    reply = api.get("/subjects/s/versions", accept="application/json")
    assert (reply.status, reply.headers["content-type"]) == (404, "application/json")


@pytest.mark.parametrize("accept", ["text/html", "*/anything"])
def test_an_accept_that_fits_nothing_is_406(api: Api, accept: str) -> None:
    assert api.get("/subjects", accept=accept).error == (406, 406, "HTTP 406 Not Acceptable")


def test_a_foreign_content_type_is_415(api: Api) -> None:
    reply = api.post("/subjects/s/versions", {"schema": '"int"'}, content_type="text/plain")
    assert reply.error == (415, 415, "HTTP 415 Unsupported Media Type")
    assert api.put("/config", {}, content_type="application/octet-stream").status == 200


@pytest.mark.parametrize(
    "target", ["/nowhere", "/subjects/s/versions/1/nothing", "/schemas/ids", "/contexts/c/x"]
)
def test_an_unknown_path_is_404(api: Api, target: str) -> None:
    assert api.get(target).error == (404, 404, "HTTP 404 Not Found")


def test_an_unknown_method_is_405_and_says_what_is_allowed(api: Api) -> None:
    reply = api.request("PATCH", "/subjects/s")
    assert reply.error == (405, 405, "HTTP 405 Method Not Allowed")
    assert reply.headers["allow"] == "DELETE, OPTIONS, POST"


def test_options_names_the_methods(api: Api) -> None:
    reply = api.request("OPTIONS", "/config")
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PUT"


def test_head_is_get_without_its_body(api: Api) -> None:
    full, head = api.get("/config"), api.request("HEAD", "/config")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(full.body))
    assert api.request("HEAD", "/nowhere").status == 404


def test_trailing_and_repeated_slashes_are_accepted(api: Api) -> None:
    assert api.get("//subjects//").status == 200


def test_the_request_id_comes_back_if_there_is_exactly_one(api: Api) -> None:
    assert api.get("/", x_request_id="abc").headers["x-request-id"] == "abc"
    assert uuid.UUID(api.get("/", x_request_id="  ").headers["x-request-id"]).version == 4


def test_several_accept_headers_are_one_list(api: Api) -> None:
    reply = api.request("GET", "/subjects", headers=[("Accept", "text/html"), ("Accept", "application/json")])
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")


@pytest.mark.parametrize(
    "target", ["/subjects/%", "/subjects/%zz", "/subjects/%ff/versions", "/subjects?deleted=%"]
)
def test_broken_encoding_is_400(api: Api, target: str) -> None:
    status, code, _ = api.get(target).error
    assert (status, code) == (400, 400)


@pytest.mark.parametrize(
    "target", ["/subjects?limit=x", "/schemas?offset=1.5", "/schemas/ids/abc", "/schemas/ids/99999999999"]
)
def test_numbers_that_are_none_are_404(api: Api, target: str) -> None:
    assert api.get(target).error == (404, 404, "HTTP 404 Not Found")


@pytest.mark.parametrize("target", ["/subjects", "/schemas", "/contexts", "/schemas/ids/1/versions"])
def test_a_negative_offset_is_422(api: Api, target: str) -> None:
    api.register("s", '"int"')
    assert api.get(f"{target}?offset=-1").error == (422, 422, "offset must not be negative")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/subjects/s/versions"), ("POST", "/subjects/s"), ("PUT", "/config"), ("PUT", "/mode/s"),
        ("POST", "/compatibility/subjects/s/versions"), ("POST", "/associations"),
    ],
)  # fmt: skip
def test_bodies_that_are_no_objects(api: Api, method: str, target: str) -> None:
    for body, status in ((b"", 422), (b"null", 422), (b"{", 400), (b"[]", 400), (b'"x"', 400)):
        found, code, _ = api.request(method, target, body).error
        assert (found, code) == (status, status), body
    assert api.backend.log == []


def test_a_body_in_many_parts_is_one(api: Api) -> None:
    parts = [bytes((each,)) for each in b'{"schema":"\\"int\\""}']
    assert api.stream("POST", "/subjects/s/versions", parts).status == 200


def test_a_client_that_goes_away_gets_no_answer_and_changes_nothing(api: Api) -> None:
    assert api.stream("POST", "/subjects/s/versions", [b'{"schema":'], ends="disconnect").status == 0
    assert api.backend.log == []


def test_long_bodies_are_compressed_on_request(api: Api) -> None:
    plain = api.get("/openapi.json")
    packed = api.get("/openapi.json", accept_encoding="gzip")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert "content-encoding" not in api.get("/config", accept_encoding="gzip").headers


def test_the_offset_of_a_write_is_in_its_answer(api: Api) -> None:
    reply = api.put("/config", {"compatibility": "FULL"})
    assert reply.headers["x-registry-offset"] == str(len(api.backend.log)) != "0"
    assert api.get("/config").headers["x-registry-offset"] == reply.headers["x-registry-offset"]


def test_a_read_can_ask_for_an_offset(api: Api) -> None:
    offset = api.put("/config", {"compatibility": "FULL"}).headers["x-registry-offset"]
    assert api.get("/config", x_registry_min_offset=offset).status == 200
    assert api.get("/config", x_registry_min_offset=str(int(offset) + 1)).error[:2] == (400, 400)
    for bad in ("x", "-1", "1" * 20, ""):
        assert api.get("/config", x_registry_min_offset=bad).error[:2] == (400, 400)


class _Broken(ListBackend):
    def view(self):
        raise RuntimeError("secret")


def test_an_unexpected_error_is_logged_and_500_in_shape(caplog: pytest.LogCaptureFixture) -> None:
    api = Api(_Broken())
    with caplog.at_level(logging.ERROR):
        reply = api.get("/subjects")
    api.close()
    assert reply.error == (500, 500, "Internal Server Error")
    assert "secret" in caplog.text
    assert "x-request-id" in reply.headers


class _Away(ListBackend):
    def view(self):
        raise UNAVAILABLE("The log is not read yet")


def test_a_node_that_cannot_answer_is_503_with_retry_after() -> None:
    api = Api(_Away())
    reply = api.get("/subjects")
    api.close()
    assert reply.error == (503, 503, "The log is not read yet")
    assert reply.headers["retry-after"] == "1"


class _Slow(ListBackend):
    async def submit(self, command, _origin):
        await asyncio.Event().wait()


def test_what_needs_no_rows_is_answered_without_them() -> None:
    with Api(_Broken()) as api:
        for target in (
            "/",
            "/schemas/types",
            "/v1/metadata/version",
            "/v1/metadata/deployment",
            "/health/live",
        ):
            assert api.get(target).status == 200


class _Late(ListBackend):
    """A backend that knows at the end of the time limit that nothing was written."""

    async def submit(self, command, _origin):
        try:
            async with asyncio.timeout(0.02):
                await asyncio.Event().wait()
        except TimeoutError:
            raise UNAVAILABLE("nothing was written") from None


def test_a_write_that_the_backend_refuses_at_the_last_moment_is_not_in_doubt() -> None:
    with Api(_Late(), ApiSettings(request_timeout_s=0.01)) as api:
        assert api.put("/config", {}).status == 503


def test_a_write_without_an_outcome_in_time_is_50002() -> None:
    api = Api(_Slow(), ApiSettings(request_timeout_s=0.01))
    status, code, text = api.put("/config", {}).error
    api.close()
    assert (status, code) == (500, 50002)
    assert "safe to repeat" in text
