"""``GET /me``: the sender of a request, ways to sign in, and what is permitted."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from registry.api.backend import ApiSettings
from registry.domain.principal import Principal
from registry.security.authentication.gate import AuthenticationGate
from registry.security.authentication.passwords import Plain
from registry.security.authentication.users import User, Users
from registry.security.authorization.rules_file import parse
from registry.security.gate import FULL_ACCESS, Access, Permission, SignIn
from tests.api.driver import Api, Reply
from tests.api.permitting import rule

ALL = [each.value for each in Permission]
RULES = parse(
    (
        rule("root", "admin", "*")
        + rule("alice", "developer", "own-*", ":.ctx:*")
        + rule("bob", "reader", "*")
        + rule("carol", "read", "alias", "own-value")
        + rule("carol", "write", "alias")
    ).encode()
)
SIGN_IN = SignIn(required=True, basic=True)


class UserFile:
    """Users with one password."""

    value = Users(
        {
            name.encode(): User(Principal(name, frozenset({"b", "a"})), Plain(b"secret"))
            for name in ("root", "alice", "bob", "carol", "nobody")
        }
    )


class GuardedApi(Api):
    """A registry whose users have to authenticate."""

    def __init__(self, access: Callable[[Principal, str], Access], **options: bool) -> None:
        self.gate = AuthenticationGate(access, users=UserFile(), certificates=True)
        super().__init__(settings=ApiSettings(sign_in=SIGN_IN, **options), gate=self.gate)

    def close(self) -> None:
        self.gate.close()
        super().close()

    def as_user(self, user: str, target: str = "/me", method: str = "GET", body: Any = None) -> Reply:
        return self.request(method, target, body, {"authorization": credentials(user)})


def credentials(user: str, password: str = "secret") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def api() -> Iterator[GuardedApi]:
    with GuardedApi(RULES.access) as found:
        yield found


def test_a_registry_without_authentication_permits_everything_to_everyone() -> None:
    with Api() as api:
        reply = api.get("/me?subject=any")
    assert reply.json == {
        "principal": None,
        "groups": [],
        "kind": None,
        "method": None,
        "readOnly": False,
        "operations": {"everywhere": ALL, "somewhere": ALL, "subject": ALL},
        "signIn": {"required": False, "basic": False, "bearer": False, "certificate": False, "oidc": None},
    }
    assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("open_paths", [True, False])
@pytest.mark.parametrize("header", [{}, {"authorization": "Basic Og=="}])
def test_a_request_without_credentials_learns_how_to_sign_in_and_nothing_else(
    header: dict[str, str], open_paths: bool
) -> None:
    with GuardedApi(lambda _: FULL_ACCESS, open_paths=open_paths) as api:
        assert api.request("GET", "/me?subject=own-value", headers=header).json == {
            "principal": None,
            "groups": [],
            "kind": None,
            "method": None,
            "readOnly": True,
            "operations": {"everywhere": [], "somewhere": [], "subject": []},
            "signIn": {"required": True, "basic": True, "bearer": False, "certificate": False, "oidc": None},
        }
        assert api.get("/subjects").status == api.get("/me/more").status == 401


def test_wrong_credentials_are_refused(api: GuardedApi) -> None:
    for wrong in (credentials("alice", "guess"), "Bearer a.b.c", "Basic"):
        assert api.get("/me", authorization=wrong).error == (401, 401, "Unauthorized")


def test_the_principal_is_named_with_groups_and_the_method(api: GuardedApi) -> None:
    found = api.as_user("alice").json
    assert (found["principal"], found["groups"], found["method"]) == ("alice", ["a", "b"], "basic")
    assert found["kind"] == "user"
    again = api.as_user("alice").json  # by an admission that the gate has remembered
    assert again == found


@pytest.mark.parametrize(
    ("user", "everywhere", "somewhere", "read_only"),
    [
        ("root", ALL, ALL, False),
        ("bob", ["read", "compatibility"], ["read", "compatibility"], True),
        ("alice", [], ["read", "write", "compatibility"], False),
        ("nobody", [], [], True),
    ],
)
def test_operations_are_those_permitted_everywhere_and_somewhere(
    api: GuardedApi, user: str, everywhere: list[str], somewhere: list[str], read_only: bool
) -> None:
    found = api.as_user(user).json
    assert found["operations"] == {"everywhere": everywhere, "somewhere": somewhere}
    assert found["readOnly"] is read_only


@pytest.mark.parametrize(
    ("user", "subject", "operations"),
    [
        ("alice", "own-value", ["read", "write", "compatibility"]),
        ("alice", "own-%C3%A9%20%2F", ["read", "write", "compatibility"]),
        ("alice", "other", []),
        ("alice", ":.ctx:", ["read", "write", "compatibility"]),
        ("alice", "", []),
        ("root", "", ALL),
        ("bob", "other", ["read", "compatibility"]),
    ],
)
def test_operations_on_a_subject_or_context_are_those_of_the_rules(
    api: GuardedApi, user: str, subject: str, operations: list[str]
) -> None:
    assert api.as_user(user, f"/me?subject={subject}").json["operations"]["subject"] == operations


def test_a_subject_of_a_context_s_path_lies_in_that_context(api: GuardedApi) -> None:
    allowed = ["read", "write", "compatibility"]
    assert api.as_user("alice", "/contexts/.ctx/me?subject=s").json["operations"]["subject"] == allowed
    assert api.as_user("alice", "/contexts/.other/me?subject=s").json["operations"]["subject"] == []
    assert api.as_user("alice", "/contexts/.ctx/me").json["operations"]["subject"] == allowed


def test_operations_on_an_alias_have_to_be_permitted_on_its_target_too(api: GuardedApi) -> None:
    assert api.as_user("carol", "/me?subject=alias").json["operations"]["subject"] == ["read", "write"]
    api.as_user("root", "/config/alias", "PUT", {"alias": "own-value"})
    assert api.as_user("carol", "/me?subject=alias").json["operations"]["subject"] == ["read"]


def test_a_page_that_asks_for_passwords_itself_is_not_challenged_by_a_scheme_of_browsers(
    api: GuardedApi,
) -> None:
    assert api.get("/subjects").headers["www-authenticate"].startswith("Basic realm=")
    for wrong in ({}, {"authorization": credentials("alice", "guess")}):
        reply = api.request("GET", "/subjects", headers={"x-requested-with": "page", **wrong})
        assert reply.status == 401
        assert reply.headers["www-authenticate"].startswith("X-Basic realm=")
