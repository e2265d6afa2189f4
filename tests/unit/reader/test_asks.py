"""Askers are counted in bounded memory, and their counts handed over once."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from types import FrameType
from typing import Any

import msgspec
import pytest

from registry.api.asks import NO_VERSION, Ask, Asker, Asks, Thing, thing_asked
from registry.base.observe.metrics import Headers, Observed, Served
from registry.domain.errors import FORWARD_FAILED, OUTCOME_UNKNOWN, RegistryError, outcome_unknown
from registry.http1.messages import Header, Request
from registry.reader import asks as counting
from registry.reader.asks import AskCounter
from registry.security.client_address import TrustedProxies

BY_ID, VERSION, REGISTER = (
    "/schemas/ids/{id}", "/subjects/{subject}/versions/{version}", "/subjects/{subject}/versions",
)  # fmt: skip
DAY = 20_000


def served(
    target: str, route: str = BY_ID, *, status: int = 200, method: bytes = b"GET", agent: bytes = b"java",
    host: str = "10.0.0.1", principal: str = "", kind: str = "", headers: tuple[Header, ...] = (),
) -> Served:  # fmt: skip
    sent = Headers([(b"accept", b"*/*"), (b"user-agent", agent), *headers])
    request = Request(method, target.encode(), sent, b"", "1.1", True)
    return Served(request, host, status, 0.001, 10, route, b"", principal, kind)


class Counting:
    """A counter, and what observes answers with it."""

    def __init__(self, proxies: TrustedProxies | None = None) -> None:
        self.asks = AskCounter((proxies or TrustedProxies()).client, day=lambda: DAY)
        self.observe = Observed(access_log=False, counts_for=self.asks.counts_for)

    def __call__(self, served: Served) -> None:
        self.observe(served)


@pytest.fixture
def counter() -> Counting:
    return Counting()


def taken(counter: Counting, error: RegistryError | None = None) -> list[Asks]:
    """Return what the counter hands over; with ``error`` the node answers that."""
    found: list[Asks] = []

    async def send(asks: Asks) -> None:
        found.append(asks)
        if error is not None:
            raise error

    asyncio.run(counter.asks.hand_over(send))
    return found


@pytest.mark.parametrize(
    ("target", "thing"),
    [
        ("/schemas/ids/7", Thing("id 7 .")),
        ("/schemas/ids/7/schema?subject=:.c:s", Thing("id 7 .c")),
        ("/contexts/c/schemas/ids/7", Thing("id 7 .c")),
        ("/schemas/ids/7?subject=s&fetchMaxId=false", Thing("id 7 .")),
        ("/schemas/guids/7F6E5D4C-0000-0000-0000-00000000000A",
         Thing("guid 7f6e5d4c-0000-0000-0000-00000000000a")),
        ("/subjects/a%20b/versions/3", Thing("subject a b", 3)),
        ("/subjects/s/versions/latest/schema", Thing("subject s", NO_VERSION)),
        ("/contexts/c/subjects/s/versions/-1", Thing("subject :.c:s", NO_VERSION)),
        ("/subjects/s/versions?normalize=true", Thing("subject s", NO_VERSION)),
        ("/subjects/:.:s", Thing("subject s", NO_VERSION)),
        ("/subjects/a.b-value/versions/12/schema", Thing("subject a.b-value", 12)),
        ("/subjects/a.b-value/metadata?key=app&value=1", Thing("subject a.b-value", NO_VERSION)),
        ("/schemas/ids/007/schema", Thing("id 7 .")),
        ("/schemas/ids/4294967296", None),
        ("/schemas/ids/99999999999", None),
        ("/schemas/guids/seven", None),
        ("/subjects/%zz/versions/1", None),
    ],
)  # fmt: skip
def test_a_target_names_what_is_asked_for(target: str, thing: Thing | None) -> None:
    assert thing_asked(target.encode()) == thing


def test_requests_that_ask_are_counted_by_asker_and_thing(counter: Counting) -> None:
    for each in (
        *[served("/schemas/ids/1")] * 3,
        served("/schemas/ids/1?fetchMaxId=false"),
        served("/schemas/ids/2", status=304),
        served("/schemas/ids/1", agent=b"python"),
        served("/schemas/ids/1", host="10.0.0.2"),
        *[served("/subjects/s/versions/1", VERSION, principal="billing", host=f"10.0.0.{n}") for n in (3, 4)],
        served("/subjects/s/versions", REGISTER, method=b"POST", principal="billing"),
        # None of these fetches a schema.
        served("/schemas/ids/3", status=404),
        served("/subjects/s/versions", REGISTER),
        served("/subjects/s", "/subjects/{subject}", method=b"DELETE"),
        served("/schemas/ids/1/subjects", "/schemas/ids/{id}/subjects"),
        Served(None, "10.0.0.1", 400, 0.0, 0),
    ):
        counter(each)
    [asks] = taken(counter)
    assert asks.day == DAY
    assert asks.other == 0
    assert {(each.asker, each.thing): each.requests for each in asks.asks} == {
        (Asker("", "10.0.0.1", "java"), Thing("id 1 .")): 4,
        (Asker("", "10.0.0.1", "java"), Thing("id 2 .")): 1,
        (Asker("", "10.0.0.1", "python"), Thing("id 1 .")): 1,
        (Asker("", "10.0.0.2", "java"), Thing("id 1 .")): 1,
        (Asker("billing", "", "java"), Thing("subject s", 1)): 2,
        (Asker("billing", "", "java"), Thing("subject s")): 1,
    }
    assert {(each.first, each.last) for each in asks.asks} == {(DAY, DAY)}
    assert taken(counter) == []


def test_an_address_is_the_client_behind_trusted_proxies_and_an_agent_is_printable_and_short() -> None:
    counter = Counting(TrustedProxies(["10.0.0.0/8"]))
    for client in (b"192.0.2.7", b"2001:db8::1"):
        counter(
            served("/schemas/ids/1", headers=((b"x-forwarded-for", client),), agent=b"\x1b\xff" + b"x" * 99)
        )
    [asks] = taken(counter)
    agent = "?\ufffd" + "x" * 78
    assert {each.asker for each in asks.asks} == {
        Asker("", "192.0.2.7", agent), Asker("", "2001:db8::", agent),
    }  # fmt: skip


def steps(observe: Observed, request: Served) -> int:
    """Return how many lines of Python run to observe a request: alike in all releases of Python."""
    taken = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal taken
        taken += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        observe(request)
    finally:
        sys.settrace(before)
    return taken


def test_counting_who_asks_takes_few_lines_and_bounded_memory(counter: Counting) -> None:
    request, without = served("/schemas/ids/1"), Observed(access_log=False)
    for observe in (without, counter.observe):
        observe(request)  # From here on its headers are known.
    uncounted, counted = steps(without, request), steps(counter.observe, request)
    assert 0 < counted - uncounted <= 4
    counter(request)
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(3 * counting.WAITING_MAX):
        counter(again(request, f"/schemas/ids/{number % 100}"))
    assert sys.getallocatedblocks() - before < counting.WAITING_MAX + 500
    [asks] = taken(counter)
    assert sum(each.requests for each in asks.asks) == 3 * counting.WAITING_MAX + 3


def again(before: Served, target: str) -> Served:
    """Return a later request of the same connection."""
    assert isinstance(before.request, Request)
    return before._replace(request=before.request._replace(target=target.encode()))


def test_what_waits_is_counted_once_there_is_no_room_and_none_is_lost(
    counter: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "WAITING_MAX", 8)
    heads: list[Headers] = []
    for agent in (b"a", b"b", b"c", b"d"):
        first = served("/schemas/ids/1", agent=agent)
        assert first.request is not None
        heads.append(first.request.headers)
        # Each asker leaves as many targets waiting as it may.
        for number in range(15):
            counter(again(first, f"/schemas/ids/{number % 7}"))
            assert sum(len(each.targets) for each in heads) <= 8
    [asks] = taken(counter)
    by_agent = Counter[str]()
    for ask in asks.asks:
        by_agent[ask.asker.agent] += ask.requests
    assert by_agent == dict.fromkeys("abcd", 15)
    assert {each.requests for each in asks.asks} == {2, 3}
    assert not any(hasattr(each, "targets") for each in heads)


def test_targets_beyond_their_bound_are_counted_as_other_when_those_that_wait_are_counted(
    counter: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "TARGETS_MAX", 5)
    request = served("/schemas/ids/1")
    for number in (1, 1, *range(1, 9), 9, 9):
        counter(again(request, f"/schemas/ids/{number}"))
    [asks] = taken(counter)
    assert {each.thing.name: each.requests for each in asks.asks} == {
        "id 1 .": 3, **{f"id {number} .": 1 for number in (2, 3, 4, 5)},
    }  # fmt: skip
    assert asks.other == 5


def test_principals_of_two_kinds_with_one_name_are_two_and_all_names_can_be_sent(counter: Counting) -> None:
    names = ("billing", "user"), ("billing", "token"), ("\ud800" + "x" * 300, "token")
    for principal, kind in names:
        counter(served("/schemas/ids/1", principal=principal, kind=kind))
    [asks] = taken(counter)
    assert {each.asker for each in asks.asks} == {
        Asker("billing", "", "java", "user"), Asker("billing", "", "java", "token"),
        Asker("?" + "x" * 255, "", "java", "token"),
    }  # fmt: skip
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(asks), type=Asks) == asks


def test_a_request_whose_target_says_nothing_is_counted_as_other(counter: Counting) -> None:
    counter(served("/schemas/ids/99999999999"))
    [asks] = taken(counter)
    assert (asks.asks, asks.other) == ([], 1)


def test_what_finds_no_room_is_counted_as_other(counter: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "ASKERS_MAX", 3)
    monkeypatch.setattr(counting, "TARGETS_MAX", 5)
    for number in range(5):
        counter(served("/schemas/ids/1", agent=b"a%d" % number))  # The last two askers find none.
    for number in range(2, 6):
        counter(served(f"/schemas/ids/{number}", agent=b"a0"))  # The last two targets find none.
    counter(served("/schemas/ids/1", agent=b"a0"))
    counter(served(f"/schemas/ids/1?x={'x' * 600}", agent=b"a0"))
    [asks] = taken(counter)
    assert asks.other == 5
    assert sum(each.requests for each in asks.asks) == 6
    counter(served("/schemas/ids/9", agent=b"a4"))
    assert [each.other for each in taken(counter)] == [0]  # There is room again.


def test_counts_that_the_node_refuses_are_sent_again_and_uncertain_ones_are_not(counter: Counting) -> None:
    counter(served("/schemas/ids/1"))
    refused = taken(counter, FORWARD_FAILED("the node is away"))
    counter(served("/schemas/ids/2"))
    assert taken(counter) == refused
    unknown = taken(counter, OUTCOME_UNKNOWN(outcome_unknown("late")))
    assert [each.thing.name for each in unknown[0].asks] == ["id 2 ."]
    assert taken(counter) == [Asks(DAY, [], 1)]
    assert isinstance(refused[0].asks[0], Ask)


def test_counts_that_are_under_way_are_not_sent_a_second_time(counter: Counting) -> None:
    found: list[Asks] = []

    async def run() -> None:
        sent, answered = asyncio.Event(), asyncio.Event()

        async def send(asks: Asks) -> None:
            found.append(asks)
            sent.set()
            await answered.wait()

        counter(served("/schemas/ids/1"))
        one = asyncio.create_task(counter.asks.hand_over(send))
        await sent.wait()
        other = asyncio.create_task(counter.asks.hand_over(send))
        counter(served("/schemas/ids/2"))
        asyncio.get_running_loop().call_soon(answered.set)  # once the other one has begun
        await asyncio.gather(one, other)

    asyncio.run(run())
    assert [[each.thing.name for each in asks.asks] for asks in found] == [["id 1 ."], ["id 2 ."]]
