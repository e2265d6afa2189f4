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
from tests.support.running import until_async


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
        found = await verifier.verify(known, b"alice", b"secret")
        assert found is not None
        assert found.principal == Principal("alice")
        assert await verifier.verify(known, b"alice", b"wrong") is None
        assert await verifier.verify(Users({}), b"alice", b"secret") is None
        verifier.close()

    asyncio.run(main())


def test_an_unknown_name_costs_a_comparison_and_never_matches() -> None:
    async def main() -> None:
        password = Slow()
        password.go_on.set()
        verifier = Verifier()
        assert await verifier.verify(users(password), b"mallory", b"secret") is None
        assert password.compared == [b"secret"]
        verifier.close()

    asyncio.run(main())


@pytest.mark.parametrize(("name", "password"), [(b"a" * 256, b"secret"), (b"alice", b"s" * 1025)])
def test_what_no_user_can_have_is_not_compared(name: bytes, password: bytes) -> None:
    async def main() -> None:
        stored = Slow()
        verifier = Verifier()
        assert await verifier.verify(users(stored), name, password) is None
        assert not stored.compared

    asyncio.run(main())


def test_few_passwords_are_compared_at_once_and_a_bounded_number_waits() -> None:
    async def main() -> None:
        password = Slow()
        verifier, known = Verifier(), users(password)
        waiting = [
            asyncio.create_task(verifier.verify(known, b"alice", b"secret")) for _ in range(PENDING_MAX)
        ]
        await until_async(lambda: password.running == AT_ONCE_MAX, "the threads to be busy")
        with pytest.raises(RegistryError) as caught:
            await verifier.verify(known, b"alice", b"secret")
        assert caught.value.code == 503
        assert password.running == AT_ONCE_MAX
        password.go_on.set()
        assert None not in await asyncio.gather(*waiting)
        assert await verifier.verify(known, b"alice", b"secret") is not None
        verifier.close()

    asyncio.run(main())


@dataclass
class Stepped:
    """A password whose comparisons end one by one; ``secret`` is right."""

    ends: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    begun: list[bytes] = field(default_factory=list)

    def matches(self, given: bytes) -> bool:
        self.begun.append(given)
        self.ends.acquire(timeout=30)
        return given.startswith(b"secret")


class Waiting:
    """Passwords that are verified one by one, in the order that is tested."""

    def __init__(self) -> None:
        self.password, self.verifier = Stepped(), Verifier()
        self.users = Users({b"alice": User(Principal("alice"), self.password)})
        self.tasks: list[asyncio.Task[User | None]] = []

    async def add(self, password: str, network: str, *, proven: bool = False) -> None:
        verified = self.verifier.verify(self.users, b"alice", password.encode(), network, proven=proven)
        self.tasks.append(asyncio.create_task(verified))
        await asyncio.wait(self.tasks[-1:], timeout=0)  # until it waits
        if len(self.tasks) <= AT_ONCE_MAX:
            await until_async(lambda: len(self.password.begun) == len(self.tasks), "the thread to begin")

    async def order(self) -> list[str]:
        """Return all passwords in the order of their turns."""
        expected = len([each for each in self.tasks if not each.done()])
        for count in range(AT_ONCE_MAX, expected):
            self.password.ends.release()
            await until_async(lambda count=count: len(self.password.begun) > count, "the next turn")  # type: ignore[misc]
        self.password.ends.release(AT_ONCE_MAX)
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.verifier.close()
        return [each.decode() for each in self.password.begun]


def test_proven_passwords_come_first_and_new_networks_before_those_that_failed() -> None:
    async def main() -> None:
        waiting = Waiting()
        for number in range(6):
            await waiting.add(f"guess{number}", f"n{number % 2}")
        await waiting.add("secret of a new one", "n2")
        await waiting.add("secret known", "n0", proven=True)
        order = await waiting.order()
        assert order[:2] == ["guess0", "guess1"]
        # The first turn that ends is a failure of one of the two networks.
        assert order[2] == "secret known"
        assert order.index("secret of a new one") <= 4
        assert sorted(order[3:]) == ["guess2", "guess3", "guess4", "guess5", "secret of a new one"]

    asyncio.run(main())


def test_networks_take_turns_however_many_passwords_each_has_waiting() -> None:
    async def main() -> None:
        waiting = Waiting()
        for number in range(10):
            await waiting.add(f"secret a{number}", "a")
        for number in range(3):
            await waiting.add(f"secret b{number}", "b")
        order = await waiting.order()
        assert [each[7] for each in order] == list("aaabababaaaaa")

    asyncio.run(main())


def test_who_has_less_waiting_takes_the_room_of_who_has_most() -> None:
    async def main() -> None:
        waiting = Waiting()
        for number in range(PENDING_MAX):
            await waiting.add(f"guess{number}", "crowd")
        await waiting.add("secret of a new one", "new")
        await asyncio.wait([waiting.tasks[PENDING_MAX - 1]])
        dropped = waiting.tasks[PENDING_MAX - 1].exception()
        assert isinstance(dropped, RegistryError)
        assert dropped.code == 503
        with pytest.raises(RegistryError):
            await waiting.verifier.verify(waiting.users, b"alice", b"guess", "crowd")
        assert (await waiting.order()).index("secret of a new one") <= AT_ONCE_MAX + 1
        assert (await waiting.tasks[-1]) is not None

    asyncio.run(main())


def test_a_turn_of_a_request_that_was_dropped_goes_to_the_next() -> None:
    async def main() -> None:
        waiting = Waiting()
        for number in range(5):
            await waiting.add(f"secret {number}", "n")
        waiting.tasks[2].cancel()
        await asyncio.wait([waiting.tasks[2]])
        assert await waiting.order() == ["secret 0", "secret 1", "secret 3", "secret 4"]

    asyncio.run(main())
