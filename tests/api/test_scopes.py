"""The config and mode in force, and the scopes that they come from."""

from __future__ import annotations

from typing import Any

from tests.api.driver import Api
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


def test_scopes_that_may_not_be_seen_are_hidden() -> None:
    with PermittingApi(rule("bob", "reader", "s")) as api:
        api.put("/config", {"compatibility": "NONE"})
        found = api.request("GET", "/scopes?subject=s", user="bob").json
        assert [each.get("hidden", False) for each in found["scopes"]] == [False, True, True]
        assert found["config"] == {"compatibilityLevel": "NONE"}
        assert api.request("GET", "/scopes?subject=t", user="bob").status == 403
        assert api.request("GET", "/scopes", user="bob").status == 403
