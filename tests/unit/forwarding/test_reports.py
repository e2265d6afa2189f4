"""Reports of the nodes of a cluster, as each node keeps them."""

from __future__ import annotations

import msgspec
import pytest

from registry.forwarding.reports import ADDRESS_MAX, FORGOTTEN_S, NODES_MAX, REPORT_BYTES_MAX, Report, Reports


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def packed(*reports: Report) -> bytes:
    return msgspec.msgpack.encode(list(reports))


def test_the_newest_report_of_each_node_counts_whoever_passes_it_on() -> None:
    clock = Clock()
    reports = Reports("me", clock=clock)
    reports.take(packed(Report("a", b"1", 5.0), Report("b", b"2")))
    clock.now += 1
    reports.take(packed(Report("a", b"older", 7.0), Report("b", b"newer", 0.5)))
    assert reports.others() == [Report("a", b"1", 6.0), Report("b", b"newer", 0.5)]


def test_a_node_s_own_report_is_always_its_own() -> None:
    reports = Reports("a", lambda: b"mine")
    reports.take(packed(Report("a", b"another's"), Report("b", b"2")))
    assert [each.node for each in reports.others()] == ["b"]
    assert [each.body for each in msgspec.msgpack.decode(reports.pack(), type=list[Report])] == [
        b"mine", b"2"
    ]  # fmt: skip


def test_a_node_that_is_not_heard_of_is_forgotten_in_the_end() -> None:
    clock = Clock()
    reports = Reports("me", clock=clock)
    reports.take(packed(Report("a", b"1")))
    clock.now += FORGOTTEN_S - 1
    assert len(reports.others()) == 1
    clock.now += 1
    assert reports.others() == []


def test_the_number_and_size_of_reports_are_bounded() -> None:
    clock = Clock()
    reports = Reports("me", clock=clock)
    reports.take(packed(Report("large", bytes(REPORT_BYTES_MAX + 1))))
    assert reports.others() == []
    for number in range(NODES_MAX + 5):
        clock.now += 1
        reports.take(packed(Report(f"n{number}", b"")))
    kept = {each.node for each in reports.others()}
    assert len(kept) == NODES_MAX
    assert {"n4", f"n{NODES_MAX + 4}"} & kept == {f"n{NODES_MAX + 4}"}


@pytest.mark.parametrize("message", [b"", b"\xc1", msgspec.msgpack.encode({}), msgspec.msgpack.encode([1])])
def test_a_message_that_is_none_is_refused(message: bytes) -> None:
    reports = Reports("me")
    with pytest.raises(msgspec.DecodeError):
        reports.take(message)
    assert reports.others() == []


def test_nodes_with_an_address_are_asked_in_turn_a_few_at_a_time() -> None:
    reports = Reports("me")
    reports.take(packed(Report("silent", b""), *(Report(f"n{n}", b"", peer=f"h{n}:1") for n in range(5))))

    def asked() -> list[tuple[str, str]]:
        return [(each.node, each.peer) for each in reports.next_peers()]

    assert asked() == [("n0", "h0:1"), ("n1", "h1:1"), ("n2", "h2:1")]
    assert [node for node, _ in asked()] == ["n3", "n4", "n0"]
    assert [node for node, _ in asked()] == ["n1", "n2", "n3"]
    reports.take(packed(Report("long", b"", peer="h" * (ADDRESS_MAX + 1))))
    assert "long" not in {each.node for each in reports.others()}
