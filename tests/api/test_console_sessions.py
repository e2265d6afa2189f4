"""Sessions of the console: cookies that only its own pages can use."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from registry.api.backend import ApiSettings
from registry.domain.principal import Principal
from registry.security.authentication.gate import AuthenticationGate
from registry.security.authentication.passwords import Plain
from registry.security.authentication.sessions import WHOLE_S, Session, Sessions, session_keys
from registry.security.authentication.users import User, Users
from registry.security.gate import FULL_ACCESS, SignIn
from tests.api.driver import Api, Reply

PAGE = {"x-requested-with": "fetch"}
LASTS_S = 900


class UserFile:
    """The users of today."""

    def __init__(self) -> None:
        self.change(root="secret")

    def change(self, **passwords: str) -> None:
        self.value = Users(
            {name.encode(): User(Principal(name), Plain(each.encode())) for name, each in passwords.items()}
        )


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Console(Api):
    """A registry with users and sessions, and what its pages send."""

    def __init__(self, folder: Path) -> None:
        self.users, self.clock = UserFile(), Clock()
        self.sessions = Sessions([b"k" * 32], folder / "ended", LASTS_S, self.clock)
        self.gate = AuthenticationGate(
            lambda principal, kind: FULL_ACCESS, users=self.users, sessions=self.sessions
        )
        settings = ApiSettings(sign_in=SignIn(required=True, basic=True), sessions=self.gate)
        super().__init__(settings=settings, gate=self.gate)

    def sign_in(self, **headers: str) -> Reply:
        basic = {"authorization": "Basic " + base64.b64encode(b"root:secret").decode()}
        return self.request("POST", "/me/session", {}, basic | PAGE | headers)

    def cookie(self) -> str:
        return self.sign_in().headers["set-cookie"].partition(";")[0]

    def status(self, cookie: str, method: str = "GET", **headers: str) -> int:
        self.gate.forget()  # as after a second
        given = {"cookie": cookie, **PAGE, **{name.replace("_", "-"): each for name, each in headers.items()}}
        return self.request(method, "/subjects", None, given).status

    def close(self) -> None:
        self.gate.close()
        super().close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Console]:
    with Console(tmp_path) as found:
        yield found


def test_a_password_is_exchanged_for_a_cookie_that_no_script_and_no_other_site_gets(api: Console) -> None:
    reply = api.sign_in(host="registry", origin="https://registry")
    assert (reply.status, reply.json) == (200, {"lasts": LASTS_S})
    cookie = SimpleCookie(reply.headers["set-cookie"])[api.sessions.cookie]
    attributes = (cookie["httponly"], cookie["samesite"], cookie["secure"], cookie["path"], cookie["max-age"])
    assert attributes == (True, "Strict", True, "/", "900")
    assert "Secure" not in api.sign_in().headers["set-cookie"]
    me = api.request("GET", "/me", headers={"cookie": api.cookie(), **PAGE}).json
    assert (me["principal"], me["method"], me["kind"]) == ("root", "basic", "user")


def test_a_cookie_counts_only_in_requests_of_scripts_of_the_own_pages(api: Console) -> None:
    cookie = api.cookie()
    assert api.status(cookie) == 200
    assert api.status(f"a=b; {cookie}; c=d") == 200
    assert api.request("GET", "/subjects", headers={"cookie": cookie}).status == 401
    for foreign in (
        {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}, {"origin": "https://evil"},
        {"origin": "https://registry:8443", "host": "registry"}, {"cookie": f"{cookie}; {cookie}"},
    ):  # fmt: skip
        assert api.status(foreign.pop("cookie", cookie), **foreign) == 401, foreign
    assert api.status(cookie, origin="https://registry", host="registry", sec_fetch_site="same-origin") == 200


def test_a_session_is_renewed_until_a_limit_and_then_ends(api: Console) -> None:
    cookie = api.cookie()
    for _ in range(WHOLE_S // 600 - 1):
        api.clock.now += 600
        api.gate.forget()
        reply = api.request("POST", "/me/session", {}, {"cookie": cookie, **PAGE})
        assert reply.status == 200
        cookie = reply.headers["set-cookie"].partition(";")[0]
    assert reply.json == {"lasts": 600}
    assert api.status(cookie) == 200
    api.clock.now += 600
    assert api.status(cookie) == 401
    other = api.cookie()
    api.clock.now += LASTS_S
    assert api.status(other) == 401


def test_a_page_learns_when_its_session_has_to_be_renewed(api: Console) -> None:
    cookie = api.cookie()

    def session(**headers: str) -> object:
        api.gate.forget()
        return api.request("GET", "/me", None, PAGE | headers).json.get("session")

    assert session(cookie=cookie) == {"left": LASTS_S, "lasts": LASTS_S}
    api.clock.now += 600
    assert session(cookie=cookie) == {"left": LASTS_S - 600, "lasts": LASTS_S}
    assert session() is None
    assert session(authorization="Basic " + base64.b64encode(b"root:secret").decode()) is None
    # Near the end of all renewals.
    for _ in range(WHOLE_S // 600 - 2):
        renewed = api.request("POST", "/me/session", {}, {"cookie": cookie, **PAGE})
        cookie = renewed.headers["set-cookie"].partition(";")[0]
        api.clock.now += 600
        api.gate.forget()
    assert session(cookie=cookie) == {"left": 300, "lasts": 600}


def test_signing_out_ends_a_session_also_for_its_older_cookies_and_other_processes(
    api: Console, tmp_path: Path
) -> None:
    first, unrelated = api.cookie(), api.cookie()
    renewed = api.request("POST", "/me/session", {}, {"cookie": first, **PAGE}).headers["set-cookie"]
    second = renewed.partition(";")[0]
    gone = api.request("DELETE", "/me/session", headers={"cookie": second, **PAGE})
    assert (gone.status, "Max-Age=0" in gone.headers["set-cookie"]) == (200, True)
    assert [api.status(each) for each in (first, second, unrelated)] == [401, 401, 200]
    elsewhere = Sessions([b"k" * 32], tmp_path / "ended", LASTS_S, api.clock)
    assert elsewhere.verify(first.partition("=")[2].encode()) is None
    # What is kept of it goes after it would have expired, also by the clock of another node.
    api.clock.now += LASTS_S + 300 + 62
    assert api.request("DELETE", "/me/session", headers={"cookie": api.cookie(), **PAGE}).status == 200
    assert len([*(tmp_path / "ended").iterdir()]) == 1


def test_processes_that_end_sessions_at_the_same_time_do_not_hinder_each_other(
    api: Console, tmp_path: Path
) -> None:
    new, gone = tmp_path / "ended" / "new", tmp_path / "ended" / "gone"
    new.parent.mkdir()
    new.touch()  # another process has made it, and not yet set until when it counts
    os.utime(new, (api.clock.now - 1, api.clock.now - 1))
    gone.symlink_to("nowhere")  # as a file that goes between its listing and its use
    cookie = api.cookie()
    assert api.request("DELETE", "/me/session", headers={"cookie": cookie, **PAGE}).status == 200
    assert (new.exists(), api.status(cookie)) == (True, 401)


@pytest.mark.parametrize("change", [{"root": "other"}, {"other": "secret"}])
def test_another_password_and_the_removal_of_a_user_end_sessions(
    api: Console, change: dict[str, str]
) -> None:
    cookie = api.cookie()
    assert api.status(cookie) == 200
    api.users.change(**change)
    assert api.status(cookie) == 401
    api.gate.forget()
    assert api.request("POST", "/me/session", {}, {"cookie": cookie, **PAGE}).status == 401


def test_what_is_no_token_of_this_registry_is_refused(api: Console) -> None:
    name, _, token = api.cookie().partition("=")
    changed = token[:20] + ("A" if token[20] != "A" else "B") + token[21:]
    foreign, _ = Sessions([b"x" * 32], Path("none"), 900, api.clock).begin(
        Principal("root"), "basic", b"", 2**40
    )
    for each in ("", "a", "%", changed, token[:-1], token + token, foreign.decode(), "A" * 5000):
        assert api.status(f"{name}={each}") == 401, each


def test_without_credentials_there_is_nothing_to_exchange(api: Console) -> None:
    assert api.request("POST", "/me/session", {}, PAGE).status == 401
    with Api() as open_registry:
        for method in ("POST", "DELETE"):
            assert open_registry.request(method, "/me/session", {}).status == 404


def test_a_principal_with_too_many_groups_for_a_cookie_gets_none(tmp_path: Path) -> None:
    sessions = Sessions([b"k" * 32], tmp_path, 900)
    crowded = Principal("root", frozenset(f"group-{number}" for number in range(1000)))
    with pytest.raises(Exception, match="too many groups"):
        sessions.begin(crowded, "bearer", b"", 2**40)


def found(sessions: Sessions, token: bytes) -> Session | None:
    return sessions.verify(token)


def test_keys_come_from_the_secret_of_the_cluster_or_a_file_of_the_host(tmp_path: Path) -> None:
    old, new = session_keys(tmp_path, ["old"]), session_keys(tmp_path, ["new", "old"])
    assert not (tmp_path / "key").exists()
    token, _ = Sessions(old, tmp_path, 900).begin(Principal("root"), "bearer", b"", 2**40)
    assert found(Sessions(new, tmp_path, 900), token) is not None
    assert found(Sessions(session_keys(tmp_path, ["new"]), tmp_path, 900), token) is None
    own = session_keys(tmp_path / "sessions", [])
    assert own == session_keys(tmp_path / "sessions", [])
    assert (tmp_path / "sessions" / "key").stat().st_mode & 0o077 == 0
    assert session_keys(tmp_path / "other", []) != own
