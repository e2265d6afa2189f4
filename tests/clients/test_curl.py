"""curl, as in the README and in scripts: statuses, headers and bodies as they are sent."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.clients.samples import USER, USER_TEXT, USER_WITH_AGE_TEXT
from tests.support.running import Served

V1 = "application/vnd.schemaregistry.v1+json"


class Answer:
    """The status, headers (names in lower case) and body of the last answer that curl printed."""

    def __init__(self, printed: bytes) -> None:
        head, _, self.body = printed.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Curl:
    """Return ``curl(path, *options)`` against the running registry."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, path: str, *options: str) -> Answer:
        command = [
            "curl",
            "--silent",
            "--show-error",
            "--include",
            "--max-time",
            "30",
            *options,
            self.url + path,
        ]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return Answer(done.stdout)

    def post(self, path: str, body: object, *options: str) -> Answer:
        return self(path, "--data", json.dumps(body), "--header", f"Content-Type: {V1}", *options)


@pytest.fixture
def curl(registry: Served) -> Curl:
    return Curl(registry.url)


def test_registers_and_fetches(curl: Curl, topic: str) -> None:
    registered = curl.post(f"/subjects/{topic}/versions", {"schema": USER_TEXT})
    assert registered.status == 200
    assert registered.headers["content-type"] == V1
    assert registered.json["version"] == 1
    schema_id = registered.json["id"]
    fetched = curl(f"/schemas/ids/{schema_id}")
    assert fetched.status == 200
    assert json.loads(fetched.json["schema"]) == USER
    assert fetched.json["schemaType"] == "AVRO"
    assert json.loads(curl(f"/schemas/ids/{schema_id}/schema").body) == USER
    assert curl(f"/subjects/{topic}/versions").json == [1]
    assert curl(f"/subjects/{topic}/versions/latest").json["id"] == schema_id
    assert curl.post(f"/subjects/{topic}", {"schema": USER_TEXT}).json["id"] == schema_id


def test_json_as_curl_sends_it(curl: Curl, topic: str) -> None:
    registered = curl(f"/subjects/{topic}/versions", "--json", json.dumps({"schema": USER_TEXT}))
    assert (registered.status, registered.headers["content-type"]) == (200, "application/json")


def test_curls_own_content_type_is_refused_with_415(curl: Curl, topic: str) -> None:
    refused = curl(f"/subjects/{topic}/versions", "--data", json.dumps({"schema": USER_TEXT}))
    assert (refused.status, refused.json["error_code"]) == (415, 415)


def test_answers_the_type_that_is_asked_for(curl: Curl) -> None:
    assert (
        curl("/subjects", "--header", "Accept: application/json").headers["content-type"]
        == "application/json"
    )
    assert curl("/subjects").headers["content-type"] == V1
    assert curl("/subjects", "--header", "Accept: text/html").status == 406


def test_errors_have_confluents_shape(curl: Curl, topic: str) -> None:
    missing = curl(f"/subjects/{topic}/versions/latest")
    assert (missing.status, missing.json) == (
        404,
        {"error_code": 40401, "message": f"Subject '{topic}' not found."},
    )
    curl.post(f"/subjects/{topic}/versions", {"schema": USER_TEXT})
    clash = curl.post(f"/subjects/{topic}/versions", {"schema": USER_WITH_AGE_TEXT})
    assert (clash.status, clash.json["error_code"]) == (409, 40901)
    assert curl("/nothing/here").json["error_code"] == 404


def test_every_answer_names_the_offset_and_the_request(curl: Curl, topic: str) -> None:
    registered = curl.post(
        f"/subjects/{topic}/versions", {"schema": USER_TEXT}, "--header", "X-Request-ID: r-1"
    )
    assert registered.headers["x-request-id"] == "r-1"
    offset = int(registered.headers["x-registry-offset"])
    after = curl("/subjects")
    assert int(after.headers["x-registry-offset"]) >= offset
    assert after.headers["x-request-id"]


def test_compressed_answers(curl: Curl, topic: str) -> None:
    for number in range(50):
        curl.post(f"/subjects/{topic}-{number:03}/versions", {"schema": USER_TEXT})
    answer = curl("/subjects", "--compressed")
    assert answer.headers["content-encoding"] == "gzip"
    assert f"{topic}-049" in answer.json


def test_unchanged_schema_by_its_etag(curl: Curl, topic: str) -> None:
    schema_id = curl.post(f"/subjects/{topic}/versions", {"schema": USER_TEXT}).json["id"]
    tag = curl(f"/schemas/ids/{schema_id}").headers["etag"]
    again = curl(f"/schemas/ids/{schema_id}", "--header", f"If-None-Match: {tag}")
    assert (again.status, again.body) == (304, b"")


def test_config_mode_and_contexts(curl: Curl, topic: str) -> None:
    def put(path: str, body: object) -> Answer:
        return curl.post(path, body, "--request", "PUT")

    assert curl("/config").json["compatibilityLevel"] == "BACKWARD"
    assert put(f"/config/{topic}", {"compatibility": "full"}).json == {"compatibility": "FULL"}
    assert curl(f"/config/{topic}").json == {"compatibilityLevel": "FULL"}
    assert curl("/mode").json == {"mode": "READWRITE"}
    assert put(f"/mode/{topic}", {"mode": "READONLY"}).json == {"mode": "READONLY"}
    assert curl("/mode/" + topic, "--request", "DELETE").json == {"mode": "READONLY"}
    assert "." in curl("/contexts").json
    inside = curl.post(f"/contexts/.{topic}/subjects/orders/versions", {"schema": USER_TEXT})
    assert inside.json["id"] == 1
    assert curl(f"/contexts/.{topic}/subjects").json == [f":.{topic}:orders"]


def test_compatibility_in_words(curl: Curl, topic: str) -> None:
    curl.post(f"/subjects/{topic}/versions", {"schema": USER_TEXT})
    path = f"/compatibility/subjects/{topic}/versions/latest"
    assert curl.post(path, {"schema": USER_WITH_AGE_TEXT}).json == {"is_compatible": False}
    verbose = curl.post(path + "?verbose=true", {"schema": USER_WITH_AGE_TEXT}).json
    assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in message for message in verbose["messages"])


def test_http_1_0_and_chunked_bodies(curl: Curl, topic: str) -> None:
    assert curl("/schemas/types", "--http1.0").status == 200
    chunked = curl.post(
        f"/subjects/{topic}/versions", {"schema": USER_TEXT}, "--header", "Transfer-Encoding: chunked"
    )
    assert chunked.json["version"] == 1


def test_own_resources(curl: Curl) -> None:
    assert curl("/health/live").status == 200
    assert curl("/health/started").status == 200
    assert curl("/health/ready").status == 200
    node = curl("/node").json
    assert node["role"] == "primary"
    assert node["applied"] == node["end"]
    assert curl("/quarantine").json == []
    assert curl("/openapi.json").json["openapi"].startswith("3.")
    assert b"registrar_applied_offset" in curl("/metrics").body
    clusters = curl("/v1/metadata/id").json["scope"]["clusters"]
    assert clusters["schema-registry-cluster"] == "registrar"
    assert clusters["kafka-cluster"]
    assert curl("/").json == {}
