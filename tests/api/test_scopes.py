"""Config, mode and contexts over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.backend import ApiSettings
from registry.domain.queries.scope import Defaults
from tests.api.driver import Api, record

STRING = '"string"'
INVALID_LEVEL = (
    "Invalid compatibility level. Valid values are none, backward, forward, full, "
    "backward_transitive, forward_transitive, and full_transitive"
)
INVALID_MODE = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."


def test_the_top_config_is_always_there(api: Api) -> None:
    assert api.get("/config").body == b'{"compatibilityLevel":"BACKWARD"}'
    assert api.get("/config/:.__GLOBAL:").json == {"compatibilityLevel": "BACKWARD"}
    assert api.get("/config/:.:").json == {"compatibilityLevel": "BACKWARD"}


def test_the_default_level_is_a_setting() -> None:
    api = Api(settings=ApiSettings(defaults=Defaults(compatibility="FULL")))
    assert api.get("/config").json == {"compatibilityLevel": "FULL"}
    assert api.get("/config/s?defaultToGlobal=true").json == {"compatibilityLevel": "FULL"}
    api.close()


def test_a_config_is_set_read_and_removed(api: Api) -> None:
    assert api.put("/config", {"compatibility": "full_transitive"}).json == {
        "compatibility": "FULL_TRANSITIVE"
    }
    assert api.get("/config").json == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert api.put("/config/s", {"compatibility": "NONE"}).json == {"compatibility": "NONE"}
    assert api.get("/config/s").json == {"compatibilityLevel": "NONE"}
    assert api.delete("/config/s").json == {"compatibilityLevel": "NONE"}
    assert api.delete("/config").json == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert api.delete("/config").json == {"compatibilityLevel": "BACKWARD"}


def test_a_config_that_is_not_there(api: Api) -> None:
    text = "Subject 's' does not have subject-level compatibility configured"
    assert api.get("/config/s").error == (404, 40408, text)
    assert api.get("/config/s?defaultToGlobal=true").json == {"compatibilityLevel": "BACKWARD"}
    assert api.delete("/config/s").error == (404, 40401, "Subject 's' not found.")
    assert api.get("/config/:.c:").error[1] == 40408


def test_a_config_is_merged_and_only_null_clears(api: Api) -> None:
    api.put("/config/s", {"compatibility": "FULL", "normalize": True, "alias": "t"})
    assert api.put("/config/s", {}).json == {"alias": "t", "normalize": True, "compatibility": "FULL"}
    merged = api.put("/config/s", {"alias": None, "compatibilityGroup": "g"}).json
    assert merged == {"normalize": True, "compatibility": "FULL", "compatibilityGroup": "g"}
    api.put("/config/s", {"compatibility": None})
    assert api.get("/config/s").json["compatibilityLevel"] == "BACKWARD"


def test_the_level_has_another_name_when_it_is_set(api: Api) -> None:
    assert api.put("/config/s", {"compatibilityLevel": "NONE"}).json == {}
    assert api.get("/config/s").json == {"compatibilityLevel": "BACKWARD"}


@pytest.mark.parametrize("level", ["", "none ", "BACKWARDS", 5, True])
def test_an_unknown_level_is_42203(api: Api, level: Any) -> None:
    assert api.put("/config", {"compatibility": level}).error == (422, 42203, INVALID_LEVEL)
    assert api.backend.log == []


def test_an_unknown_policy_is_dropped(api: Api) -> None:
    api.put("/config/s", {"compatibilityPolicy": "lenient"})
    assert api.put("/config/s", {"compatibilityPolicy": "nonsense"}).json == {
        "compatibilityPolicy": "LENIENT"
    }


def test_config_keeps_metadata_and_rules_for_registrations(api: Api) -> None:
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    patch = {
        "defaultMetadata": {"properties": {"a": "1"}},
        "overrideMetadata": {"properties": {"b": "2"}},
        "defaultRuleSet": {"domainRules": [rule]},
    }
    kept = api.put("/config/s", patch).json
    assert kept["defaultMetadata"] == patch["defaultMetadata"]
    assert api.get("/config/s").json["overrideMetadata"] == patch["overrideMetadata"]
    api.register("s", STRING, metadata={"properties": {"b": "0", "c": "3"}})
    found = api.get("/subjects/s/versions/1").json
    assert found["metadata"] == {"properties": {"a": "1", "b": "2", "c": "3"}}
    assert found["ruleSet"]["domainRules"][0]["name"] == "r"


@pytest.mark.parametrize(
    "path", ["/config/a%00", "/config/__GLOBAL", "/config/:.oc:__GLOBAL", "/mode/__EMPTY"]
)
def test_illegal_scopes_are_42208(api: Api, path: str) -> None:
    assert api.put(path, {"mode": "READONLY"}).error[:2] == (422, 42208)


def test_config_goes_by_context(api: Api) -> None:
    api.put("/contexts/c/config", {"compatibility": "NONE"})
    assert api.get("/config/:.c:").json == {"compatibilityLevel": "NONE"}
    assert api.get("/contexts/.c/config/s?defaultToGlobal=true").json == {"compatibilityLevel": "NONE"}
    assert api.get("/config/s?defaultToGlobal=true").json == {"compatibilityLevel": "BACKWARD"}


def test_the_top_mode_is_always_there(api: Api) -> None:
    assert api.get("/mode").body == b'{"mode":"READWRITE"}'
    assert api.get("/mode/:.__GLOBAL:").json == {"mode": "READWRITE"}


def test_a_mode_is_set_read_and_removed(api: Api) -> None:
    assert api.put("/mode/s", {"mode": "readOnly"}).body == b'{"mode":"readOnly"}'
    assert api.get("/mode/s").json == {"mode": "READONLY"}
    assert api.get("/mode").json == {"mode": "READWRITE"}
    assert api.delete("/mode/s").json == {"mode": "READONLY"}
    assert api.get("/mode/s").error == (404, 40409, "Subject 's' does not have subject-level mode configured")
    assert api.get("/mode/s?defaultToGlobal=true").json == {"mode": "READWRITE"}
    assert api.delete("/mode/s").error == (404, 40401, "Subject 's' not found.")
    assert api.delete("/mode/s?recursive=true").body == b"{}"
    assert api.delete("/mode").json == {"mode": "READWRITE"}


def test_null_removes_a_mode_and_a_body_without_it_is_422(api: Api) -> None:
    api.put("/mode/s", {"mode": "READONLY"})
    assert api.put("/mode/s", {}).error[:2] == (422, 422)
    assert api.get("/mode/s").json == {"mode": "READONLY"}
    assert api.put("/mode/s", {"mode": None}).body == b"{}"
    assert api.get("/mode/s").error[1] == 40409


@pytest.mark.parametrize("mode", ["", "read", "READWRITE ", 1])
def test_an_unknown_mode_is_42204(api: Api, mode: Any) -> None:
    assert api.put("/mode", {"mode": mode}).error == (422, 42204, INVALID_MODE)
    assert api.backend.log == []


def test_forward_is_for_everything_only(api: Api) -> None:
    text = "Forward mode only supported on global level"
    assert api.put("/mode/s", {"mode": "FORWARD"}).error == (422, 42204, text)
    assert api.put("/mode/:.__GLOBAL:", {"mode": "FORWARD"}).status == 200


def test_modes_may_be_fixed() -> None:
    api = Api(settings=ApiSettings(defaults=Defaults(mode_mutability=False)))
    for reply in (api.put("/mode", {"mode": "READONLY"}), api.delete("/mode")):
        assert reply.error == (422, 42205, "Mode changes are not allowed")
    api.close()


def test_import_mode_wants_an_empty_scope(api: Api) -> None:
    api.register("s", STRING)
    text = "Cannot import since found existing subjects"
    assert api.put("/mode", {"mode": "IMPORT"}).error == (422, 42205, text)
    assert api.put("/mode/s", {"mode": "IMPORT"}).error == (422, 42205, text)
    assert api.put("/mode/other", {"mode": "IMPORT"}).status == 200
    assert api.put("/mode?force=true", {"mode": "IMPORT"}).status == 200
    assert api.get("/mode").json == {"mode": "IMPORT"}


def test_modes_below_a_context_go_recursively(api: Api) -> None:
    api.put("/mode/:.c:", {"mode": "READONLY"})
    api.put("/mode/:.c:s", {"mode": "IMPORT"})
    assert api.delete("/mode/:.c:?recursive=true").json == {"mode": "READONLY"}
    assert api.get("/mode/:.c:s").error[1] == 40409


def test_contexts_are_listed(api: Api) -> None:
    assert api.get("/contexts").json == ["."]
    for name in (":.b:s", ":.a:s", ":.Z:s", ":.b2:s"):
        api.register(name, STRING)
    assert api.get("/contexts").json == [".", ".Z", ".a", ".b", ".b2"]
    assert api.get("/contexts?contextPrefix=.b").json == [".b", ".b2"]
    assert api.get("/contexts?offset=1&limit=2").json == [".Z", ".a"]


def test_contexts_are_deleted_when_empty(api: Api) -> None:
    api.register(":.c:s", STRING)
    for step in ("/subjects/:.c:s", "/subjects/:.c:s?permanent=true"):
        status, code, text = api.delete("/contexts/c").error
        assert (status, code) == (422, 42211)
        assert text.endswith("is not empty.")
        api.delete(step)
    assert api.get("/contexts").json == [".", ".c"]
    for form in (".c", "c", ":.c:"):
        reply = api.delete(f"/contexts/{form}")
        assert (reply.status, reply.body) == (204, b"")
        assert "content-type" not in reply.headers
    assert api.get("/contexts").json == ["."]


def test_ids_are_those_of_the_context(api: Api) -> None:
    assert api.register("s", STRING) == 1
    assert api.post("/contexts/c/subjects/s/versions", {"schema": record("R")}).json["id"] == 1
    assert api.get("/contexts/c/subjects/s/versions/1").json["subject"] == ":.c:s"
