"""The config and mode in force, and the scopes that they come from."""

from __future__ import annotations

from typing import Any

from tests.api.driver import Api, record
from tests.api.permitting import PermittingApi, rule


def scopes(api: Api, subject: str = "") -> Any:
    reply = api.get(f"/scopes?subject={subject}")
    assert reply.status == 200, reply.body
    return reply.json


def test_the_scopes_come_in_the_order_of_precedence(api: Api) -> None:
    chains = {
        subject: [each["scope"] for each in scopes(api, subject)["scopes"]]
        for subject in ("s", ":.x:s", ":.x:", "", ":.__GLOBAL:")
    }
    assert chains == {
        "s": ["s", "", ":.__GLOBAL:"],
        ":.x:s": [":.x:s", ":.x:", ":.__GLOBAL:"],
        ":.x:": [":.x:", ":.__GLOBAL:"],
        "": ["", ":.__GLOBAL:"],
        ":.__GLOBAL:": [":.__GLOBAL:"],
    }


def test_what_is_in_force_is_what_the_first_scope_stores(api: Api) -> None:
    found = scopes(api, "s")
    assert (found["config"], found["mode"]) == ({"compatibilityLevel": "BACKWARD"}, "READWRITE")
    assert found["defaultLevel"] == "BACKWARD"
    assert [(each["config"], each["mode"]) for each in found["scopes"]] == [(None, None)] * 3
    api.put("/config/:.__GLOBAL:", {"compatibility": "FULL"})
    api.put("/config", {"compatibility": "NONE"})
    api.put("/mode/s", {"mode": "READONLY"})
    found = scopes(api, "s")
    assert (found["config"], found["mode"]) == ({"compatibilityLevel": "NONE"}, "READONLY")
    assert [each["mode"] for each in found["scopes"]] == ["READONLY", None, None]
    assert [each["config"] for each in found["scopes"]] == [
        None, {"compatibilityLevel": "NONE"}, {"compatibilityLevel": "FULL"},
    ]  # fmt: skip
    for subject in ("s", ":.x:s", ""):
        assert scopes(api, subject)["config"] == api.get(f"/config/{subject}?defaultToGlobal=true").json


def test_each_member_names_the_scope_that_it_comes_from(api: Api) -> None:
    top = {"compatibility": "FULL", "normalize": True, "compatibilityPolicy": "LENIENT", "alias": "a"}
    api.put("/config", top)
    api.put("/config/:.x:", {"compatibility": "FORWARD", "normalize": False})
    api.put("/config/:.x:own", {"compatibilityGroup": "g"})
    everywhere = dict.fromkeys(("normalize", "compatibilityPolicy"), "")
    expected = {
        "s": {"alias": "", "compatibilityLevel": "", **everywhere},
        ":.x:": {"normalize": ":.x:", "compatibilityPolicy": "", "compatibilityLevel": ":.x:"},
        ":.x:s": {"normalize": ":.x:", "compatibilityLevel": ":.x:"},
        ":.x:own": {"compatibilityGroup": ":.x:own", **everywhere},
        ":.y:s": {},
        ":.__GLOBAL:s": everywhere,
    }
    found = {subject: scopes(api, subject) for subject in expected}
    assert {subject: each["origins"] for subject, each in found.items()} == expected
    for subject, each in found.items():
        level = {} if "compatibilityLevel" in expected[subject] else {"compatibilityLevel": ""}
        assert each["config"].keys() == {*expected[subject], *level}


def test_scopes_that_may_not_be_seen_are_hidden() -> None:
    with PermittingApi(rule("bob", "reader", "s")) as api:
        api.put("/config", {"compatibility": "NONE"})
        assert api.request("GET", "/scopes?subject=s", user="bob").json["origins"] == {}
        found = api.request("GET", "/scopes?subject=s", user="bob").json
        assert [each.get("hidden", False) for each in found["scopes"]] == [False, True, True]
        assert found["config"] == {"compatibilityLevel": "NONE"}
        assert api.request("GET", "/scopes?subject=t", user="bob").status == 403
        assert api.request("GET", "/scopes", user="bob").status == 403


def test_an_alias_also_says_what_is_in_force_for_its_target(api: Api) -> None:
    for fields in ("a", "ab"):
        api.register("target", record("R", *fields))
    api.register("own", record("R", "a"))
    api.put("/config/target", {"compatibility": "FULL"})
    api.put("/config/own", {"alias": "target"})
    found = scopes(api, "own")
    assert (found["subject"], found["versions"]) == ("own", 1)
    assert found["answering"] == scopes(api, "target")
    assert (found["answering"]["subject"], found["answering"]["versions"]) == ("target", 2)
    assert found["answering"]["config"]["compatibilityLevel"] == "FULL"
    assert "answering" not in found["answering"]
    api.put("/config/own", {"alias": "missing"})
    answering = scopes(api, "own")["answering"]
    assert (answering["subject"], answering["versions"]) == ("missing", 0)
    assert "versions" not in scopes(api)


def test_the_target_of_an_alias_is_shown_to_those_who_may_see_it() -> None:
    with PermittingApi(rule("bob", "reader", "own") + rule("ann", "reader", "own", "target")) as api:
        api.register("target", record("R", "a"))
        api.put("/config/target", {"compatibility": "FULL"})
        api.put("/config/own", {"alias": "target"})
        bob, ann = (api.request("GET", "/scopes?subject=own", user=each).json for each in ("bob", "ann"))
        assert (bob["subject"], bob["versions"], "answering" in bob) == ("own", 0, False)
        assert (ann["answering"]["subject"], ann["answering"]["versions"]) == ("target", 1)
