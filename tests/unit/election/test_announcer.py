from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from election.contract import Announcer, ErrorLog, Event, Identity, Lost, NoPrimary, PrimaryIs, Won

OTHER = PrimaryIs(Identity("http", "sr2", 8081, eligible=True))
NOBODY = NoPrimary("nobody is there")


def heard(announcer: Announcer) -> list[Event]:
    """Return all events that a consumer gets until the end."""

    async def listen() -> list[Event]:
        announcer.close()
        return [event async for event in announcer.events()]

    return asyncio.run(listen())


async def until_all_had_a_turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def _heard_while(steps: list[Event | None]) -> list[Event]:
    """Return the events of a consumer that listens at each step that is None."""
    announcer = Announcer()
    events = announcer.events()
    said: list[Event] = []

    async def listen() -> None:
        async for event in events:
            said.append(event)  # noqa: PERF401  one by one, as they come

    listener = asyncio.create_task(listen())
    for step in [None, *steps]:
        if step is None:
            await until_all_had_a_turn()
        else:
            announcer.announce(step)
    announcer.close()
    await listener
    return said


def test_says_nothing_twice_and_begins_with_the_present_state() -> None:
    announcer = Announcer()
    for event in (NOBODY, OTHER, OTHER):
        announcer.announce(event)
    assert heard(announcer) == [OTHER]


def test_a_loss_is_said_even_where_it_is_only_implied() -> None:
    said = asyncio.run(_heard_while([Won(), None, OTHER]))
    assert said == [Won(), Lost("another node is the primary now"), OTHER]


def test_only_a_primary_can_lose() -> None:
    assert asyncio.run(_heard_while([OTHER, None, Lost("x")])) == [OTHER]


def test_a_loss_is_heard_by_a_slow_consumer() -> None:
    assert asyncio.run(_heard_while([Won(), None, Lost("x"), NOBODY, OTHER, Won()])) == [
        Won(),
        Lost("x"),
        Won(),
    ]


def test_a_new_consumer_ends_the_former_one() -> None:
    async def scenario() -> None:
        announcer = Announcer()
        announcer.announce(OTHER)
        former, later = announcer.events(), announcer.events()
        assert await anext(former) == OTHER
        waiting = asyncio.ensure_future(anext(former, None))
        await until_all_had_a_turn()
        assert await anext(later) == OTHER
        assert await waiting is None

    asyncio.run(scenario())


EVENTS = st.sampled_from([Won(), Lost("x"), NOBODY, OTHER])


@given(st.lists(EVENTS | st.none(), max_size=12))
def test_won_and_lost_alternate_and_the_last_state_is_heard(steps: list[Event | None]) -> None:
    said = asyncio.run(_heard_while(steps))
    marks = [event for event in said if isinstance(event, Won | Lost)]
    assert [type(mark) for mark in marks] == [(Won, Lost)[i % 2] for i in range(len(marks))]
    for before, after in pairwise(said):
        assert not isinstance(before, Won) or isinstance(after, Lost)
    announcer = Announcer()
    for step in steps:
        if step is not None:
            announcer.announce(step)
    if announcer.is_primary:
        assert said[-1] == Won()


def test_errors_that_go_on_are_logged_at_once_and_then_every_30_s(caplog: pytest.LogCaptureFixture) -> None:
    """As Confluent 8.4; before, each attempt of a second or less would log its traceback."""
    clock = [100.0]
    errors = ErrorLog(logging.getLogger("election.test"), lambda: clock[0])
    caplog.set_level(logging.INFO)
    errors.clear()
    for second in (0, 1, 29, 30, 31):
        clock[0] = 100.0 + second
        try:
            int(f"at {second}")
        except ValueError:
            errors.report()
    errors.clear()
    errors.clear()
    logged = [
        (each.levelname, str(each.exc_info[1]).split("'")[1] if each.exc_info else "")
        for each in caplog.records
    ]
    assert logged == [("ERROR", "at 0"), ("ERROR", "at 30"), ("INFO", "")]


def test_an_error_of_another_kind_is_logged_at_once_beside_one_that_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = ErrorLog(logging.getLogger("election.test"), lambda: 100.0)

    def number() -> None:
        int("none")

    def key() -> None:
        raise KeyError("gone")

    def another_key() -> None:
        raise KeyError("lost")

    for fail in (number, key, number, key, another_key):
        try:
            fail()
        except (ValueError, KeyError):
            errors.report()
    logged = [each.exc_text.splitlines()[-1] for each in caplog.records if each.exc_text]
    assert [each.partition(":")[0] for each in logged] == ["ValueError", "KeyError", "KeyError"]
