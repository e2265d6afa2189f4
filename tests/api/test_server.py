"""Resources that describe the server itself."""

from __future__ import annotations

from registry.api.backend import ApiSettings
from registry.api.permissions import ADMINS
from registry.api.routes import operations
from registry.domain.log_format.records import schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject
from tests.api.driver import Api


def test_metadata_of_the_server() -> None:
    api = Api(settings=ApiSettings(cluster_id="mine", version="8.2.0", commit="abc"))
    clusters = {"kafka-cluster": "log-1", "schema-registry-cluster": "mine"}
    assert api.get("/v1/metadata/id").json == {"scope": {"path": [], "clusters": clusters}}
    assert api.get("/v1/metadata/version").json == {"version": "8.2.0", "commitId": "abc"}
    assert api.get("/v1/metadata/deployment").json == {"attributes": []}
    api.close()


def test_health(api: Api) -> None:
    assert api.get("/health/live").json == {"status": "live", "reasons": []}
    assert api.get("/health/started").status == 200
    ready = api.get("/health/ready")
    assert (ready.status, ready.json["status"], ready.json["eta_s"]) == (200, "ready", None)
    api.backend.reasons = ["the log is being read"]
    for target in ("/health/started", "/health/ready", "/health/ready?for=writes"):
        reply = api.get(target)
        assert (reply.status, reply.json["reasons"]) == (503, ["the log is being read"])
        assert reply.headers["retry-after"] == "1"
        assert reply.headers["content-type"] == "application/json"
    assert api.get("/health/live").status == 200


def test_health_for_writes(api: Api) -> None:
    assert api.get("/health/ready?for=writes").json["status"] == "ready for writes"
    api.backend.unwritable = ["Kafka does not answer"]
    reply = api.get("/health/ready?for=writes")
    assert (reply.status, reply.json["status"]) == (503, "not ready for writes")
    assert reply.json["reasons"] == ["Kafka does not answer"]
    for target in ("/health/ready", "/health/ready?for=traffic"):
        reply = api.get(target)
        assert (reply.status, reply.json["reasons"], reply.json["ready_for_writes"]) == (200, [], False)
    for unknown in ("/health/ready?for=", "/health/ready?for=reads", "/health/ready?for=Writes"):
        assert (api.get(unknown).status, api.get(unknown).json["error_code"]) == (422, 422)


def test_own_resources_answer_any_accept(api: Api) -> None:
    for target in ("/health/live", "/node", "/quarantine", "/openapi.json"):
        reply = api.get(target, accept="text/html", content_type="text/plain")
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")


def test_node(api: Api) -> None:
    api.put("/config", {})
    found = api.get("/node").json
    assert (found["role"], found["epoch"], found["applied"], found["end"]) == ("primary", 0, 1, 1)
    assert found["digest"] == api.backend.digest()
    assert found["warnings"] == []


def test_node_has_the_warnings_about_the_settings() -> None:
    api = Api(settings=ApiSettings(warnings=("other machines can reach http://0.0.0.0:8081",)))
    found = api.get("/node").json
    described = api.get("/openapi.json").json["components"]["schemas"]["Node"]["properties"]
    api.close()
    assert found["warnings"] == ["other machines can reach http://0.0.0.0:8081"]
    assert found.keys() == described.keys()


def test_resources_of_administrators_have_no_path_in_a_context() -> None:
    api = Api(metrics=_no_metrics)
    paths = [
        each.path.replace("{snapshot}", "s1")
        for each in operations("0", _no_metrics)
        if each.permission is ADMINS or each.path == "/metrics"
    ]
    assert len(paths) > 5
    for path in paths:
        for context in (".", ":.:", ".c", "c", ":.c:"):
            missing = api.get(f"/contexts/{context}{path}", accept="text/plain")
            assert (missing.status, missing.json["error_code"]) == (404, 404)
    api.close()


async def _no_metrics() -> bytes:
    return b""


def test_quarantine_lists_what_could_not_be_read(api: Api) -> None:
    assert api.get("/quarantine").json == []
    api.backend.append(b'{"keytype":"CONFIG","magic":0}', b"nonsense")
    api.backend.append(b"\xff", b"{}")
    found = api.get("/quarantine").json
    assert [each["offset"] for each in found] == [0, 1]
    assert found[0]["key"] == '{"keytype":"CONFIG","magic":0}'
    assert all(each["reason"] for each in found)
    api.put("/config", {})
    assert [each["offset"] for each in api.get("/quarantine").json] == [1]


def test_quarantine_reports_ids_that_stand_for_two_contents_when_asked(api: Api) -> None:
    bound = [
        ("a", 1, '"int"'),
        ("b", 1, '"int"'),
        ("c", 1, '"long"'),
        ("d", 2, '"long"'),
        (":.c:a", 1, '"long"'),
        (":.c:b", 2, '"int"'),
    ]
    for name, schema_id, text in bound:
        subject = Subject.parse(name)
        api.backend.append(schema_key(subject, 3), schema_value(subject, 3, schema_id, text))
    assert api.get("/quarantine").json == []
    (found,) = api.get("/quarantine?clashes=true").json
    assert (found["offset"], found["key"]) == (2, schema_key(Subject.parse("c"), 3).decode())
    assert found["reason"] == "the id 1 stands for another content already: subject 'a' version 3, offset 0"


def test_metrics_are_served_where_they_are_kept(api: Api) -> None:
    async def metrics() -> bytes:
        return b"one 1\n"

    assert api.get("/metrics").status == 404
    measured = Api(metrics=metrics)
    reply = measured.get("/metrics", accept="text/plain")
    measured.close()
    assert (reply.status, reply.body) == (200, b"one 1\n")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_the_description_names_the_headers_that_count(api: Api) -> None:
    paths = api.get("/openapi.json").json["paths"]

    def headers(path: str) -> set[str]:
        return {each["name"] for each in paths[path]["get"]["parameters"] if each["in"] == "header"}

    assert headers("/schemas/ids/{id}") == {"X-Registry-Min-Offset", "If-None-Match"}
    assert headers("/subjects") == {"X-Registry-Min-Offset"}
    assert headers("/schemas/types") == headers("/health/live") == set()
    assert "304" in paths["/schemas/ids/{id}"]["get"]["responses"]
    assert "304" not in paths["/subjects"]["get"]["responses"]
