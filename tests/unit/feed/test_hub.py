"""The listeners of one process: whoever resumes, lags or loses rights sees exactly what it should."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from registry.domain.errors import RegistryError
from registry.domain.events import Filter, Kind
from registry.domain.queries.subject_order import Prefix
from registry.domain.subject_patterns import parse_pattern
from registry.feed import hub as hub_module
from registry.feed import tail as tail_module
from registry.feed.delivery import SLICE
from registry.security.authorization.rules import RuleAccess
from registry.security.gate import FULL_ACCESS, NO_ACCESS, Permission
from tests.support.running import until_async
from tests.unit.feed.feeding import (
    ListGate,
    ListSource,
    ListStream,
    feeding,
    listen,
    subscription,
    until_next_turn,
    until_seen,
)

ONLY_A = Filter(subjects=Prefix.parse("a"))
ADMINISTRATOR = RuleAccess([(frozenset({Permission.ADMIN}), (parse_pattern("*"),))])
READS_A = RuleAccess([(frozenset({Permission.READ}), (parse_pattern("a"),))])


def in_loop(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop."""

    @wraps(scenario)
    def test(**fixtures: object) -> None:
        asyncio.run(scenario(**fixtures))

    return test


@in_loop
async def test_a_listener_gets_all_events_after_its_position_and_then_those_that_come() -> None:
    source = ListSource(10)
    with feeding(source) as hub:
        stream = await listen(hub, 6)
        await until_seen(stream, 7, 8, 9)
        source.append(2)
        await until_seen(stream, 10, 11)
        assert stream.offsets == [7, 8, 9, 10, 11]


@in_loop
async def test_a_listener_without_a_position_begins_now() -> None:
    source = ListSource(10)
    with feeding(source) as hub:
        stream = await listen(hub, None)
        assert stream.position == 9
        source.append()
        await until_seen(stream, 10)
        assert stream.offsets == [10]


@in_loop
async def test_a_listener_far_back_gets_pages_from_the_source_and_then_joins_the_others() -> None:
    source = ListSource(5000)
    with feeding(source) as hub:
        first, far = await listen(hub, None), await listen(hub, -1)
        await until_seen(far, 4999)
        source.append()
        await until_seen(far, 5000)
        await until_seen(first, 5000)
        assert far.offsets == [*range(5001)]


@in_loop
async def test_listeners_with_the_same_filter_share_what_is_printed() -> None:
    source = ListSource(2)
    with feeding(source) as hub:
        streams = [await listen(hub, None) for _ in range(3)]
        others = [await listen(hub, None, subscription(ONLY_A)) for _ in range(2)]
        await until_async(lambda: source.asked, "the feed to begin")
        source.append(2)
        for stream in streams:
            await until_seen(stream, 2, 3)
        for stream in others:
            await until_seen(stream, 2)
        assert len({id(stream.written[-1]) for stream in streams}) == 1
        assert len({id(stream.written[-1]) for stream in others}) == 1


@in_loop
async def test_a_slow_listener_is_written_nothing_until_it_has_read_and_then_all_that_it_missed() -> None:
    source = ListSource(1)
    with feeding(source) as hub:
        slow, quick = await listen(hub, None), await listen(hub, None)
        source.append()
        await until_seen(slow, 1)
        slow.behind = True
        written = len(slow.written)
        for _ in range(6):
            source.append(1000)
            await until_seen(quick, source.end - 1)
        assert len(slow.written) == written
        slow.drain()
        await until_seen(slow, source.end - 1)
        assert slow.offsets == [*range(1, source.end)]
        assert quick.offsets == [*range(1, source.end)]


@in_loop
async def test_a_slow_listener_whose_connection_breaks_is_counted() -> None:
    source = ListSource(1)
    with feeding(source) as hub:
        slow, quick = await listen(hub, None), await listen(hub, None)
        await until_async(lambda: source.asked, "the feed to begin")
        slow.behind = True
        source.append()
        await until_seen(quick, 1)
        slow.close()
        quick.close()
        assert hub.dropped == 1
        assert hub.listeners == 0


@in_loop
async def test_a_source_that_fails_for_a_while_costs_no_event() -> None:
    source = ListSource(5)
    with feeding(source) as hub:
        stream = await listen(hub, 4)
        source.append()
        await until_seen(stream, 5)
        source.fails = True
        source.wake()
        asked = len(source.asked)
        await until_async(lambda: len(source.asked) > asked + 1, "the feed to try again")
        source.end += 3
        source.fails = False
        await until_seen(stream, 6, 7, 8)
        assert stream.offsets == [5, 6, 7, 8]


@in_loop
async def test_positions_outside_the_log_are_refused() -> None:
    source = ListSource(100)
    source.begin = 50
    with feeding(source) as hub:
        refusals = []
        for after in (100, 12, 48):
            with pytest.raises(RegistryError) as refused:
                await hub.locate(subscription(), after)
            refusals.append((refused.value.code, refused.value.message))
        deleted = (
            "The records after offset %d are no longer in the log; the oldest one left has offset 50, so "
            "resume after 49"
        )
        assert refusals == [
            (400, "after is beyond the end of the log: its last offset is 99"),
            (41080, deleted % 12),
            (41080, deleted % 48),
        ]
        assert [await hub.locate(subscription(), after) for after in (49, 99, -1, None)] == [50, 100, 0, 100]
        begins = await listen(hub, -1)
        await until_seen(begins, 99)
        assert begins.offsets == [*range(50, 100)]


@in_loop
async def test_a_listener_whose_events_are_deleted_while_it_lags_is_ended() -> None:
    source = ListSource(1)
    with feeding(source) as hub:
        slow = await listen(hub, None)
        source.append()
        await until_seen(slow, 1)
        slow.behind = True
        source.append(20_000)
        quick = await listen(hub, None)
        source.append()
        await until_seen(quick, source.end - 1)
        source.begin = source.end - 1
        slow.drain()
        await until_async(lambda: slow.ended, "the stream to end")
        assert not quick.ended


@in_loop
async def test_only_so_many_listeners_are_served() -> None:
    source = ListSource(1)
    with feeding(source, listeners_max=2) as hub:
        streams = [await listen(hub, None) for _ in range(2)]
        with pytest.raises(RegistryError, match="Too many clients"):
            await hub.locate(subscription(), None)
        streams[0].close()
        await listen(hub, None)


@in_loop
async def test_one_principal_leaves_room_for_others_whatever_its_credentials() -> None:
    source, gate = ListSource(1), ListGate(one=FULL_ACCESS, two=FULL_ACCESS)
    with feeding(source, gate, each_max=2) as hub:
        one, elsewhere = subscription(name="one", address="a"), subscription(name="one", address="b")
        first = await listen(hub, None, one)
        poll = asyncio.create_task(hub.poll(elsewhere, 1, limit=1, wait_s=300.0))
        await until_async(lambda: hub.listeners == 2, "the poll to wait")
        with pytest.raises(RegistryError, match="changes_per_principal_max") as refused:
            await hub.locate(one, None)
        assert (refused.value.status, refused.value.retry_after_s > 0) == (429, True)
        await listen(hub, None, subscription(name="two", address="a"))
        await listen(hub, None, subscription(name="one", method="bearer"))  # Another principal.
        too_late = ListStream()
        hub.attach(too_late, one, 1)
        assert too_late.ended
        first.close()
        await listen(hub, None, one)
    await poll


@in_loop
async def test_without_principals_one_address_leaves_room_for_others() -> None:
    source = ListSource(1)
    with feeding(source, each_max=1) as hub:
        await listen(hub, None, subscription(address="a"))
        with pytest.raises(RegistryError, match="This client listens to changes 1 times"):
            await hub.locate(subscription(address="a"), None)
        await listen(hub, None, subscription(address="b"))
        await listen(hub, None, subscription(address="2001:db8:0:1::1"))
        with pytest.raises(RegistryError, match="This client listens"):
            await hub.locate(subscription(address="2001:db8:0:1:ffff::2"), None)
        await listen(hub, None, subscription(address="2001:db8:0:2::1"))


@in_loop
async def test_nothing_is_asked_of_the_source_until_somebody_listens() -> None:
    source = ListSource(10)
    with feeding(source) as hub:
        found, position = await hub.poll(subscription(), 3, limit=2, wait_s=0.0)
        assert (len(found), position) == (2, 5)
        assert source.asked == [3]


@in_loop
async def test_a_poll_gets_what_was_applied_though_it_has_not_been_pulled_yet() -> None:
    source = ListSource(10)
    with feeding(source) as hub:
        hub.attach(ListStream(), subscription(), 10)  # pulling begins at 0, and has not yet had a turn
        found, position = await hub.poll(subscription(), 0, limit=50, wait_s=0.0)
        assert (len(found), position) == (10, 10)


@in_loop
async def test_a_poll_waits_for_the_next_event_that_it_wants() -> None:
    source = ListSource(11)
    with feeding(source) as hub:
        other = await listen(hub, None)
        poll = asyncio.create_task(hub.poll(subscription(ONLY_A), 11, limit=5, wait_s=30.0))
        await until_async(lambda: hub.listeners == 2, "the poll to wait")
        source.append()
        await until_seen(other, 11)
        assert not poll.done()
        source.append()
        found, position = await poll
        assert (len(found), position) == (1, 13)


@in_loop
async def test_a_poll_ends_without_events_when_its_time_is_over_or_the_server_stops() -> None:
    source = ListSource(10)
    with feeding(source) as hub:
        assert await hub.poll(subscription(), 10, limit=5, wait_s=0.01) == ([], 10)
        poll = asyncio.create_task(hub.poll(subscription(), 10, limit=5, wait_s=300.0))
        await until_async(lambda: hub.listeners, "the poll to wait")
    assert await poll == ([], 10)


@in_loop
async def test_streams_end_when_the_server_stops() -> None:
    source = ListSource(10)
    with feeding(source) as hub:
        stream = await listen(hub, None)
    assert stream.ended
    with pytest.raises(RegistryError, match="stopping"):
        await hub.locate(subscription(), None)


@in_loop
async def test_a_listener_that_joins_while_an_event_is_being_sent_gets_it_once() -> None:
    source, joining = ListSource(2), ListStream()
    with feeding(source) as hub:
        streams = [await listen(hub, None) for _ in range(SLICE + 1)]
        other = await listen(hub, None, subscription(ONLY_A))
        source.append(2)
        for stream in streams:
            await until_seen(stream, 2, 3)
        await until_seen(other, 2)
        begin = source.end

        def join() -> None:
            streams[0].on_write = lambda: None
            hub.attach(joining, subscription(ONLY_A), begin)

        streams[0].on_write = join
        source.append(2)
        await until_seen(other, begin)
        await until_seen(joining, begin)
        source.append(2)
        await until_seen(joining, begin, begin + 2)
        assert joining.offsets == [begin, begin + 2]


@in_loop
async def test_a_listener_that_waits_for_a_page_twice_gets_it_once() -> None:
    """Its credentials are verified again while a worker waits, so that a second one takes it up."""
    source, gate = ListSource(5000), ListGate(one=FULL_ACCESS)
    source.readable.clear()
    with feeding(source, gate) as hub:
        stream = ListStream()
        hub.attach(stream, subscription(name="one"), 0)
        await until_async(lambda: source.asked, "the feed to begin")
        gate.expired.add("one")
        source.append()
        await until_async(lambda: gate.verified, "the credentials to be verified")
        for _ in range(5):
            await until_next_turn()
        source.readable.set()
        await until_seen(stream, 5000)
        assert stream.offsets == [*range(5001)]


@in_loop
async def test_listeners_that_catch_up_share_what_is_printed() -> None:
    source = ListSource(5000)
    with feeding(source) as hub:
        streams = [await listen(hub, 10) for _ in range(3)]
        some = [await listen(hub, 10, subscription(ONLY_A)) for _ in range(2)]
        for stream in streams:
            await until_seen(stream, 4999)
        for stream in some:
            await until_seen(stream, 4998)
        for same in (streams, some):
            assert len({tuple(map(id, stream.written[1:])) for stream in same}) == 1


@in_loop
async def test_listeners_that_catch_up_leave_the_event_loop_to_others() -> None:
    source, written, most = ListSource(5000), 0, 0

    def on_write() -> None:
        nonlocal written, most
        written += 1
        most = max(most, written)

    with feeding(source) as hub:
        streams = [ListStream() for _ in range(500)]
        for stream in streams:
            hub.attach(stream, subscription(), 10)
            stream.on_write = on_write
        while any(not stream.offsets for stream in streams[-5:]):
            written = 0
            await until_next_turn()
        assert 0 < most <= 100


@in_loop
async def test_all_listeners_learn_where_they_are_also_while_the_feed_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "HEARTBEAT_S", 0.01)
    source = ListSource(5000)
    with feeding(source) as hub:
        live, waits = await listen(hub, None), ListStream()
        source.fails = True
        source.wake()
        hub.attach(waits, subscription(), 10)
        written = len(live.written), len(waits.written)
        await until_async(lambda: len(live.written) > written[0] + 1, "heartbeats")
        await until_async(lambda: len(waits.written) > written[1] + 1, "heartbeats")
        assert (live.position, waits.position) == (4999, 9)
        assert live.offsets == waits.offsets == []


@in_loop
async def test_streams_end_when_the_log_is_replaced_and_clients_resume_in_the_new_one() -> None:
    source = ListSource(5000)
    with feeding(source) as hub:
        streams = [await listen(hub, None), await listen(hub, 10), await listen(hub, -1)]
        await until_seen(streams[-1], 4999)
        source.log, source.end = "second", 20
        source.wake()
        await until_async(lambda: all(stream.ended for stream in streams), "the streams to end")
        with pytest.raises(RegistryError, match="its last offset is 19"):
            await hub.locate(subscription(), 4999)
        resumed = await listen(hub, -1)
        await until_seen(resumed, 19)
        source.append()
        await until_seen(resumed, 20)
        assert resumed.offsets == [*range(21)]


@in_loop
async def test_an_unexpected_error_ends_the_streams_whose_clients_resume(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "_FAILED_S", 0.01)
    source = ListSource(5)
    with feeding(source) as hub:
        stream = await listen(hub, 3)
        await until_seen(stream, 4)
        source.breaks_at = 6
        source.append()
        await until_async(lambda: stream.ended, "the stream to end")
        assert "unexpected error in the feed" in caplog.text
        source.breaks_at = None
        source.append()
        resumed = await listen(hub, 4)
        await until_seen(resumed, 5, 6)


@in_loop
async def test_an_unexpected_error_in_older_events_ends_only_the_streams_that_lack_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = ListSource(5000)
    with feeding(source) as hub:
        live = await listen(hub, 4998)
        await until_seen(live, 4999)
        source.breaks_at = 10
        lacking = ListStream()
        hub.attach(lacking, subscription(), 10)
        await until_async(lambda: lacking.ended, "the stream to end")
        assert "unexpected error in the feed" in caplog.text
        source.append()
        await until_seen(live, 5000)


# --- permissions


@in_loop
async def test_a_listener_sees_only_what_it_may_read() -> None:
    source = ListSource(4)
    with feeding(source, ListGate(some=READS_A)) as hub:
        stream = await listen(hub, -1, subscription(access=READS_A, name="some"))
        await until_seen(stream, 0, 2)
        source.append(3)
        await until_seen(stream, 0, 2, 4, 6)
        found, position = await hub.poll(subscription(access=READS_A, name="some"), 1, limit=9, wait_s=0.0)
        assert (len(found), position) == (3, 7)


@in_loop
async def test_changed_rules_apply_to_open_streams_before_the_next_event() -> None:
    source, gate = ListSource(4), ListGate(one=FULL_ACCESS)
    with feeding(source, gate) as hub:
        stream = await listen(hub, 3, subscription(name="one"))
        source.append(2)
        await until_seen(stream, 4, 5)
        gate.accesses["one"] = READS_A
        source.append(2)
        await until_seen(stream, 4, 5, 6)
        gate.accesses["one"] = FULL_ACCESS
        source.append(2)
        await until_seen(stream, 4, 5, 6, 8, 9)
        assert not stream.ended


@in_loop
async def test_a_stream_whose_credentials_expired_goes_on_if_they_are_still_valid() -> None:
    source, gate = ListSource(4), ListGate(one=FULL_ACCESS)
    with feeding(source, gate) as hub:
        stream = await listen(hub, 3, subscription(name="one"))
        source.append()
        await until_seen(stream, 4)
        gate.expired.add("one")
        source.append()
        await until_seen(stream, 4, 5)
        assert gate.verified == ["one"]
        assert not stream.ended


@in_loop
async def test_a_slow_listener_is_written_nothing_because_its_credentials_were_verified() -> None:
    source, gate = ListSource(4), ListGate(one=FULL_ACCESS, two=FULL_ACCESS)
    with feeding(source, gate) as hub:
        slow = await listen(hub, 3, subscription(name="one"))
        quick = await listen(hub, 3, subscription(name="two"))
        source.append()
        await until_seen(slow, 4)
        slow.behind = True
        for verified in range(3):
            gate.expired.add("one")
            source.append()
            await until_async(
                lambda verified=verified: len(gate.verified) > verified, "the credentials to be verified"
            )
            await until_seen(quick, source.end - 1)
        assert slow.offsets == [4]
        slow.drain()
        await until_seen(slow, 5, 6, 7)


@in_loop
async def test_a_stream_whose_credentials_were_revoked_ends_without_a_further_event() -> None:
    source, gate = ListSource(4), ListGate(one=FULL_ACCESS, two=FULL_ACCESS)
    with feeding(source, gate) as hub:
        stream = await listen(hub, 3, subscription(name="one"))
        other = await listen(hub, 3, subscription(name="two"))
        source.append()
        await until_seen(stream, 4)
        del gate.accesses["one"]
        source.append()
        await until_async(lambda: stream.ended, "the stream to end")
        await until_seen(other, 4, 5)
        assert stream.offsets == [4]


# --- whatever happens


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_each_listener_sees_each_event_once(seed: int) -> None:
    """Listeners come, go, lag and resume while the source fails from time to time."""

    async def scenario() -> None:
        chance, source = random.Random(seed), ListSource(20)
        gate = ListGate(one=FULL_ACCESS)
        with feeding(source, gate) as hub:
            streams: list[tuple[int, ListStream]] = []
            for _ in range(200):
                match chance.randrange(7):
                    case 0 | 1:
                        source.append(chance.choice((1, 1, 2, 700)))
                    case 2:
                        after = chance.randrange(-1, source.end)
                        streams.append((after, await listen(hub, after, subscription(name="one"))))
                    case 3 if streams:
                        chance.choice(streams)[1].behind = True
                    case 4 if streams:
                        chance.choice(streams)[1].drain()
                    case 5:
                        gate.expired.add("one")
                    case 6:
                        source.fails = True
                        await until_next_turn()
                        source.fails = False
                for _ in range(chance.randrange(4)):
                    await until_next_turn()
            for _, stream in streams:
                stream.drain()
            source.append()
            for after, stream in streams:
                await until_seen(stream, source.end - 1)
                assert stream.offsets == [*range(after + 1, source.end)]

    asyncio.run(scenario())


def test_kinds_are_filtered_before_they_are_sent() -> None:
    async def scenario() -> None:
        source = ListSource(4)
        with feeding(source) as hub:
            stream = await listen(hub, -1, subscription(Filter(kinds=frozenset({Kind.MODE_SET}))))
            other = await listen(hub, -1)
            await until_seen(other, 0, 1, 2, 3)
            assert stream.offsets == []

    asyncio.run(scenario())


def test_a_principal_without_rights_sees_nothing() -> None:
    async def scenario() -> None:
        source = ListSource(4)
        with feeding(source, ListGate(none=NO_ACCESS)) as hub:
            assert await hub.poll(subscription(access=NO_ACCESS, name="none"), 0, limit=9, wait_s=0.0) == (
                [],
                4,
            )

    asyncio.run(scenario())
