"""The gate of a registry with authentication."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.domain.errors import RegistryError
from registry.domain.principal import Principal
from registry.security.authentication.gate import UNUSED_S, AuthenticationGate
from registry.security.authentication.sessions import Sessions
from registry.security.authentication.signing_keys import KeyUrl
from registry.security.authentication.tokens import Claims, TokenVerifier
from registry.security.authentication.users import User, Users
from registry.security.authentication.verification import AT_ONCE_MAX, FREE_FAILURES, PENDING_MAX
from registry.security.authorization.rules import RuleAccess
from registry.security.authorization.rules_file import parse
from registry.security.gate import (
    FULL_ACCESS,
    NO_PASS,
    OPEN_PASS,
    SESSION,
    Access,
    Admission,
    Credentials,
    NotAdmitted,
    Permission,
)
from tests.support.running import until_async
from tests.support.token_issuer import AUDIENCE, Issuer, IssuerKey, claims, signed

HERE = "192.0.2.1"


class Counted:
    """A password that counts how often it was compared; ``go_on`` may hold comparisons."""

    def __init__(self, password: bytes) -> None:
        self.password = password
        self.waiting = self.compared = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def matches(self, given: bytes) -> bool:
        self.waiting += 1
        self.go_on.wait(30)
        self.compared += 1
        return given == self.password


class UserFile:
    """Users that may change."""

    def __init__(self) -> None:
        self.password = Counted(b"secret")
        self.value = Users({b"alice": User(Principal("alice", frozenset({"team"})), self.password)})


class Rules:
    """Rules that give every principal the same access."""

    def __init__(self) -> None:
        self.access: Access = FULL_ACCESS

    def __call__(self, principal: Principal, kind: str) -> Access:
        return self.access


def basic(name: str, password: str, address: str = HERE) -> Credentials:
    return Credentials(b"Basic " + base64.b64encode(f"{name}:{password}".encode()), "", address)


RIGHT, WRONG = basic("alice", "secret"), basic("alice", "guess")


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


async def refused(gate: AuthenticationGate, credentials: Credentials) -> NotAdmitted:
    assert gate.cached_admission(credentials) is None
    with pytest.raises(NotAdmitted) as caught:
        await gate.admit(credentials)
    assert gate.cached_admission(credentials) is None
    return caught.value


def test_a_right_password_is_verified_once_and_then_known() -> None:
    async def main() -> None:
        users, rules = UserFile(), Rules()
        gate = AuthenticationGate(rules, users=users)
        assert gate.cached_admission(RIGHT) is None
        admission = await gate.admit(RIGHT)
        assert admission.principal == Principal("alice", frozenset({"team"}))
        assert gate.cached_admission(RIGHT) is admission
        assert gate.cached_admission(RIGHT._replace(address="192.0.2.2")) is admission
        assert (await gate.admit(RIGHT)).principal == admission.principal
        gate.close()

    run(main())


@pytest.mark.parametrize(
    "header",
    [
        b"", b"Basic", b"Basic ", b"Basic !", b"Basic YWxpY2U=", b"Basic \xff\xfe", b"Digest a",
        b"Bearer a.b.c", b"\x00", b"Basic " * 9, b"Basic " + base64.b64encode(b"alice:" + b"s" * 100_000),
        b"Basic " + base64.b64encode(b":"), b"Basic " + base64.b64encode(b"\xff:\xff"),
        b"Basic " + base64.b64encode(b"alice:secret") + b", Basic " + base64.b64encode(b"alice:secret"),
        b"Basic " + base64.b64encode(b"alice:secret\n"), b"Basic " + base64.b64encode(b"ALICE:secret"),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_hostile_header_is_refused(header: bytes) -> None:
    async def main() -> None:
        gate = AuthenticationGate(Rules(), users=UserFile())
        error = await refused(gate, Credentials(header, "", HERE))
        assert (error.code, error.message) == (401, "Unauthorized")
        assert error.headers == ((b"www-authenticate", b'Basic realm="registrar", charset="UTF-8"'),)
        gate.close()

    run(main())


def test_changed_users_apply_to_known_credentials_at_once() -> None:
    async def main() -> None:
        users = UserFile()
        gate = AuthenticationGate(Rules(), users=users)
        await gate.admit(RIGHT)
        await refused(gate, WRONG)
        users.value = Users({b"alice": User(Principal("alice"), Counted(b"guess"))})
        gate.forget()
        await refused(gate, RIGHT)
        assert (await gate.admit(WRONG)).principal == Principal("alice")
        gate.close()

    run(main())


def test_changed_rules_apply_to_known_credentials_at_once_without_verifying_them_again() -> None:
    async def main() -> None:
        users, rules = UserFile(), Rules()
        gate = AuthenticationGate(rules, users=users, certificates=True)
        certificate = Credentials(b"", "CN=bob", HERE)
        for credentials in (RIGHT, certificate):
            before = await gate.admit(credentials)
            rules.access = RuleAccess([])
            gate.rules_changed()
            after = gate.cached_admission(credentials)
            assert after is not None
            assert (after.principal, after.access) == (before.principal, rules.access)
            assert gate.cached_admission(credentials) is after
            rules.access = FULL_ACCESS
            gate.rules_changed()
        assert users.password.compared == 1
        gate.close()

    run(main())


def test_a_pass_holds_until_users_or_rules_change() -> None:
    async def main() -> None:
        gate = AuthenticationGate(Rules(), users=UserFile(), certificates=True)
        assert gate.find_pass(RIGHT) is None
        assert not gate.holds(NO_PASS)
        assert not gate.holds(OPEN_PASS)
        for credentials in (RIGHT, Credentials(b"", "CN=bob", HERE)):
            admission = await gate.admit(credentials)
            found = gate.find_pass(credentials)
            assert found is not None
            assert found.admission is admission
            assert gate.holds(found)
            assert found.until <= time.monotonic() + UNUSED_S, "its use is noticed before it is forgotten"
            gate.rules_changed()
            assert not gate.holds(found)
            found = gate.find_pass(credentials)
            assert found is not None
            assert found.admission == admission
            assert gate.holds(found)
            gate.forget()
            assert not gate.holds(found)
            assert gate.find_pass(credentials) is None
        gate.close()

    run(main())


def test_passes_end_with_a_session(tmp_path: Path) -> None:
    async def main() -> None:
        sessions = Sessions([b"k" * 32], tmp_path / "ended", 900)
        gate = AuthenticationGate(Rules(), users=UserFile(), sessions=sessions)
        signed_in = gate.begin(RIGHT, await gate.admit(RIGHT))
        credentials = Credentials(SESSION + signed_in.token, "", HERE)
        await gate.admit(credentials)
        assert (found := gate.find_pass(RIGHT)) is not None
        gate.end(credentials)
        assert not gate.holds(found)
        assert gate.find_pass(credentials) is None
        assert (found := gate.find_pass(RIGHT)) is not None
        assert gate.holds(found)
        gate.close()

    run(main())


def test_users_that_change_with_the_rules_are_verified_again() -> None:
    async def main() -> None:
        users = UserFile()
        gate = AuthenticationGate(Rules(), users=users)
        await gate.admit(RIGHT)
        users.value = Users({})
        gate.rules_changed()
        gate.forget()
        await refused(gate, RIGHT)
        gate.close()

    run(main())


def test_guesses_from_many_addresses_hold_up_neither_known_clients_nor_new_ones() -> None:
    async def main() -> None:
        users = UserFile()
        gate = AuthenticationGate(Rules(), users=users)
        await gate.admit(RIGHT)
        gate.forget()
        users.password.go_on.clear()
        guesses = [
            asyncio.create_task(gate.admit(basic("alice", f"guess{number}", f"203.0.113.{number % 50}")))
            for number in range(PENDING_MAX)
        ]
        await until_async(lambda: users.password.waiting == 1 + AT_ONCE_MAX, "the threads to be busy")
        others = (basic("alice", "secret", "203.0.113.99"), basic("bob", "new", "192.0.2.9"))
        guesses += [asyncio.create_task(gate.admit(each)) for each in others]
        await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
        busy = [each.exception() for each in guesses if each.done()]
        assert [each.code for each in busy if isinstance(each, RegistryError)] == [503] * len(busy)
        compared = [asyncio.ensure_future(_compared(each, users)) for each in guesses[PENDING_MAX:]]
        users.password.go_on.set()
        # Threads compare further passwords while this one is told.
        assert max(await asyncio.gather(*compared)) < PENDING_MAX // 4
        outcomes = await asyncio.gather(*guesses, return_exceptions=True)
        assert isinstance(outcomes[-2], Admission)
        assert isinstance(outcomes[-1], NotAdmitted), "a wrong password, and not a busy server"
        gate.close()

    async def _compared(admitting: asyncio.Task[Admission], users: UserFile) -> int:
        """Return how many passwords had been compared when a client was admitted or refused."""
        await asyncio.wait([admitting])
        return users.password.compared

    run(main())


def test_a_password_verified_while_the_users_change_is_verified_again() -> None:
    async def main() -> None:
        users = UserFile()
        gate = AuthenticationGate(Rules(), users=users)
        users.password.go_on.clear()
        admitting = asyncio.create_task(gate.admit(RIGHT))
        await until_async(lambda: users.password.waiting, "the password to be compared")
        held, users.value = users.password, Users({b"alice": User(Principal("alice"), Counted(b"new"))})
        gate.forget()
        held.go_on.set()
        with pytest.raises(NotAdmitted):
            await admitting
        assert held.compared == 1
        gate.close()

    run(main())


def test_connections_that_open_at_once_cost_one_verification() -> None:
    async def main() -> None:
        users = UserFile()
        gate = AuthenticationGate(Rules(), users=users)
        admissions = await asyncio.gather(*(gate.admit(RIGHT) for _ in range(100)))
        assert len({id(each) for each in admissions}) == 1
        outcomes = await asyncio.gather(*(gate.admit(WRONG) for _ in range(100)), return_exceptions=True)
        assert {each.code for each in outcomes if isinstance(each, NotAdmitted)} == {401}
        assert users.password.compared == 2
        gate.close()

    run(main())


def test_guesses_block_their_address_and_nobody_else() -> None:
    async def main() -> None:
        users = UserFile()
        gate = AuthenticationGate(Rules(), users=users)
        working = basic("alice", "secret")
        await gate.admit(working)
        codes = [(await refused(gate, basic("alice", str(guess)))).code for guess in range(FREE_FAILURES + 3)]
        assert codes == [401] * (FREE_FAILURES + 1) + [429] * 2
        error = await refused(gate, basic("bob", "guess"))
        assert (error.code, error.headers) == (429, ((b"retry-after", b"1"),))
        assert gate.cached_admission(working) is not None
        assert users.password.compared == 1 + FREE_FAILURES + 1
        gate.forget()
        assert (await gate.admit(working._replace(address="192.0.2.2"))).principal.name == "alice"
        gate.close()

    run(main())


def test_a_client_of_a_blocked_address_goes_on_working_when_files_change() -> None:
    async def main() -> None:
        users = UserFile()
        gate = AuthenticationGate(Rules(), users=users)
        working = basic("alice", "secret")
        await gate.admit(working)
        for guess in range(FREE_FAILURES + 2):
            error = await refused(gate, basic("alice", str(guess)))
        assert error.code == 429
        gate.forget()
        assert (await gate.admit(working)).principal.name == "alice"
        users.password.password = b"changed"
        gate.forget()
        assert (await refused(gate, working)).code == 401
        gate.close()

    run(main())


def test_a_wrong_password_that_is_sent_again_and_again_is_one_guess() -> None:
    """A client with an old password must not block others at its address."""

    async def main() -> None:
        users = UserFile()
        gate = AuthenticationGate(Rules(), users=users)
        for _ in range(50):
            assert (await refused(gate, WRONG)).code == 401
        assert users.password.compared == 1
        await gate.admit(RIGHT)
        gate.close()

    run(main())


def test_what_is_remembered_holds_no_secret() -> None:
    async def main() -> None:
        gate = AuthenticationGate(Rules(), users=UserFile())
        await gate.admit(RIGHT)
        await refused(gate, WRONG)
        held = repr([vars(each) for each in (gate._known, gate._wrong)])
        for secret in ("secret", "guess", base64.b64encode(b"alice:secret").decode()):
            assert secret not in held
        gate.close()

    run(main())


# --- certificates


def test_a_certificate_names_its_principal() -> None:
    async def main() -> None:
        credentials = Credentials(b"", "CN=alice", HERE)
        gate = AuthenticationGate(Rules(), certificates=True)
        assert gate.cached_admission(credentials) is None
        admission = await gate.admit(credentials)
        assert admission.principal == Principal("CN=alice")
        assert gate.cached_admission(credentials) is admission
        await refused(gate, Credentials(b"", "", HERE))

    run(main())


def test_a_certificate_with_the_name_of_a_user_has_not_the_user_s_access() -> None:
    async def main() -> None:
        rules = parse(b'[[allow]]\nprincipal = "user:alice"\nrole = "admin"\nsubjects = "*"\n')
        gate = AuthenticationGate(rules.access, users=UserFile(), certificates=True)
        admitted = await gate.admit(RIGHT), await gate.admit(Credentials(certificate="alice"))
        assert [each.access.everywhere(Permission.READ) for each in admitted] == [True, False]
        assert [each.kind for each in admitted] == ["user", "cert"]
        gate.rules_changed()
        known = gate.cached_admission(RIGHT), gate.cached_admission(Credentials(certificate="alice"))
        assert [each is not None and each.access.everywhere(Permission.READ) for each in known] == [
            True,
            False,
        ]
        gate.close()

    run(main())


def test_credentials_in_a_header_count_before_a_certificate() -> None:
    async def main() -> None:
        gate = AuthenticationGate(Rules(), users=UserFile(), certificates=True)
        both = RIGHT._replace(certificate="CN=proxy")
        assert (await gate.admit(both)).principal.name == "alice"
        await refused(gate, WRONG._replace(certificate="CN=proxy"))
        gate.close()

    run(main())


def test_basic_credentials_without_a_name_and_a_password_are_none() -> None:
    """Some clients send them if none are configured."""

    async def main() -> None:
        gate = AuthenticationGate(Rules(), users=UserFile(), certificates=True)
        nothing = basic("", "")
        assert (await gate.admit(nothing._replace(certificate="CN=proxy"))).principal.name == "CN=proxy"
        assert gate.cached_admission(nothing) is None
        await refused(gate, nothing)
        gate.close()

    run(main())


def test_no_certificate_is_believed_unless_it_is_a_way_to_authenticate() -> None:
    async def main() -> None:
        gate = AuthenticationGate(Rules(), users=UserFile())
        await refused(gate, Credentials(b"", "CN=alice", HERE))
        gate.close()

    run(main())


# --- tokens


def bearer(token: str) -> Credentials:
    return Credentials(b"Bearer " + token.encode(), "", HERE)


def token_gate(issuer: Issuer, keys: KeyUrl, skew_s: float = 0.0) -> AuthenticationGate:
    verifier = TokenVerifier(keys, Claims(issuer.url, (AUDIENCE,), clock_skew_s=skew_s))
    return AuthenticationGate(Rules(), tokens=verifier, keys=keys)


def test_a_token_is_known_until_it_expires() -> None:
    async def main(issuer: Issuer) -> None:
        keys = KeyUrl(issuer.jwks)
        gate = token_gate(issuer, keys)
        lasting, short = bearer(issuer.token()), bearer(issuer.token(exp=claims("")["iat"] + 3))
        for credentials in (lasting, short):
            assert (await gate.admit(credentials)).principal == Principal("alice")
        passes = [gate.find_pass(credentials) for credentials in (lasting, short)]
        now = time.monotonic()
        # A pass ends in time for its use to be noticed, or earlier, with its token.
        for found, most_s in zip(passes, (UNUSED_S, 3), strict=True):
            if found is None:  # On a slow machine, the token has expired.
                continue
            assert found.until <= now + most_s
            assert not gate.holds(replace(found, until=now))
        assert gate.cached_admission(lasting) is not None
        await until_async(lambda: gate.cached_admission(short) is None, "the token to expire")
        error = await refused(gate, short)
        assert error.headers == (
            (
                b"www-authenticate",
                b'Bearer realm="registrar", error="invalid_token", error_description="the token has expired"',
            ),
        )
        keys.close()

    with Issuer() as issuer:
        run(main(issuer))


def test_a_token_of_a_rotated_key_is_fetched_for_and_the_old_one_refused() -> None:
    async def main(issuer: Issuer) -> None:
        now, gates = [0.0], list[AuthenticationGate]()

        def changed() -> None:
            gates[0].forget()

        keys = KeyUrl(issuer.jwks, clock=lambda: now[0], changed=changed)
        gates.append(gate := token_gate(issuer, keys))
        old = bearer(issuer.token())
        await gate.admit(old)
        now[0] += 60
        issuer.rotate(IssuerKey("second"))
        await gate.admit(bearer(issuer.token()))
        await refused(gate, old)
        assert issuer.requests == 2
        for number in range(100):
            await refused(gate, bearer(signed(IssuerKey(f"key {number}"), claims(issuer.url))))
        assert issuer.requests == 2
        keys.close()

    with Issuer() as issuer:
        run(main(issuer))


def test_tokens_wait_for_an_issuer_that_cannot_be_reached() -> None:
    """A 401 would make clients throw valid tokens away."""

    async def main(issuer: Issuer) -> None:
        keys = KeyUrl("http://127.0.0.1:1/keys")
        gate = token_gate(issuer, keys)
        with pytest.raises(RegistryError) as caught:
            await gate.admit(bearer(issuer.token()))
        assert caught.value.code == 503
        keys.close()

    with Issuer() as issuer:
        run(main(issuer))
