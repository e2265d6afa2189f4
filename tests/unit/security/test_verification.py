"""Verification of passwords in threads."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from registry.domain.errors import RegistryError
from registry.domain.principal import Principal
from registry.security.authentication.users import User, Users
from registry.security.authentication.verification import AT_ONCE_MAX, PENDING_MAX, Verifier
from tests.running import until_async


@dataclass
class Slow:
    """A password that takes as long to compare as the test wants."""

    go_on: threading.Event = field(default_factory=threading.Event)
    running: int = 0
    compared: list[bytes] = field(default_factory=list)

    def matches(self, given: bytes) -> bool:
        self.running += 1
        self.go_on.wait(30)
        self.compared.append(given)
        return given == b"secret"


def users(password: Slow) -> Users:
    return Users({b"alice": User(Principal("alice"), password)})


def test_a_right_password_is_the_user_s_and_no_other() -> None:
    async def main() -> None:
        password = Slow()
        password.go_on.set()
        verifier, known = Verifier(), users(password)
        found = await verifier.verified(known, b"alice", b"secret")
        assert found is not None
        assert found.principal == Principal("alice")
        assert await verifier.verified(known, b"alice", b"wrong") is None
        assert await verifier.verified(Users({}), b"alice", b"secret") is None
        verifier.close()

    asyncio.run(main())


def test_an_unknown_name_costs_a_comparison_and_never_matches() -> None:
    async def main() -> None:
        password = Slow()
        password.go_on.set()
        verifier = Verifier()
        assert await verifier.verified(users(password), b"mallory", b"secret") is None
        assert password.compared == [b"secret"]
        verifier.close()

    asyncio.run(main())


@pytest.mark.parametrize(("name", "password"), [(b"a" * 256, b"secret"), (b"alice", b"s" * 1025)])
def test_what_no_user_can_have_is_not_compared(name: bytes, password: bytes) -> None:
    async def main() -> None:
        stored = Slow()
        verifier = Verifier()
        assert await verifier.verified(users(stored), name, password) is None
        assert not stored.compared

    asyncio.run(main())


def test_few_passwords_are_compared_at_once_and_a_bounded_number_waits() -> None:
    async def main() -> None:
        password = Slow()
        verifier, known = Verifier(), users(password)
        waiting = [
            asyncio.create_task(verifier.verified(known, b"alice", b"secret")) for _ in range(PENDING_MAX)
        ]
        await until_async(lambda: password.running == AT_ONCE_MAX, "the threads to be busy")
        with pytest.raises(RegistryError) as caught:
            await verifier.verified(known, b"alice", b"secret")
        assert caught.value.code == 503
        assert password.running == AT_ONCE_MAX
        password.go_on.set()
        assert None not in await asyncio.gather(*waiting)
        assert await verifier.verified(known, b"alice", b"secret") is not None
        verifier.close()

    asyncio.run(main())
