from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from election.contract import NoPrimary, PrimaryIs, Won
from election.identity import Identity
from election.kafka.assignment import (
    DUPLICATE_URLS,
    OK,
    Assignment,
    Member,
    assignments,
    elect,
    hold_election,
    interpret,
)


def member(
    name: str,
    host: str,
    port: int = 8081,
    *,
    eligible: bool = True,
    claims: bool = False,
    scheme: str = "http",
    since_ms: int = 0,
) -> Member:
    own = Identity(scheme, host, port, eligible=eligible, node=name, since_ms=since_ms)
    return Member(name, own, claims=claims)


def winner(*members: Member, unreachable: dict[str, str] | None = None) -> str | None:
    found = elect(hold_election(members), unreachable or {})
    return found and found.id


def test_the_smallest_url_by_string_comparison_is_elected() -> None:
    assert winner(member("a", "sr2"), member("b", "sr1")) == "b"
    assert winner(member("a", "sr1", 8081), member("b", "sr1", 10081)) == "b"
    assert winner(member("a", "sr1", scheme="https"), member("b", "sr2")) == "b"


def test_only_the_eligible_are_elected() -> None:
    assert winner(member("a", "sr1", eligible=False), member("b", "sr2")) == "b"
    assert winner(member("a", "sr1", eligible=False, claims=True)) is None
    assert winner() is None


def test_the_primary_stays() -> None:
    assert winner(member("a", "sr1"), member("b", "sr2", claims=True)) == "b"
    assert winner(member("a", "sr1"), member("b", "sr2", claims=True), unreachable={"b": "no"}) != "b"
    assert hold_election([member("a", "sr1"), member("b", "sr2", claims=True)]).sticky
    assert winner(member("a", "sr3", claims=True), member("b", "sr2", claims=True), member("c", "sr1")) == "b"


def test_one_that_cannot_be_reached_is_passed_over_unless_none_can() -> None:
    two = member("a", "sr1"), member("b", "sr2")
    assert winner(*two, unreachable={"a": "refused"}) == "b"
    assert winner(*two, unreachable={"a": "refused", "b": "refused"}) == "a"


def test_duplicates_are_refused_and_named() -> None:
    ballot = hold_election([member("a", "sr1"), member("b", "sr1"), member("c", "sr2")])
    assert ballot.error == DUPLICATE_URLS
    assert elect(ballot, {}) == member("c", "sr2")
    assert ballot.rejected["a"] == (
        "node a and node b both advertise http://sr1:8081: give each an address of its own with --advertise"
    )
    assert set(ballot.rejected) == {"a", "b"}


def test_a_primary_outlives_its_duplicate() -> None:
    ballot = hold_election([member("a", "sr1"), member("b", "sr1", claims=True), member("c", "sr0")])
    assert elect(ballot, {}) == member("b", "sr1", claims=True)
    assert set(ballot.rejected) == {"a"}
    assert ballot.error == DUPLICATE_URLS


def test_of_duplicates_the_one_stays_that_had_the_address_first_even_if_another_is_primary() -> None:
    members = [member("a", "sr1", since_ms=1000), member("b", "sr1", since_ms=2000, claims=True)]
    ballot = hold_election(members)
    assert elect(ballot, {}) == members[0]
    assert not ballot.sticky
    assert ballot.rejected == {
        "b": "node b and node a (which had it first) both advertise http://sr1:8081:"
        " give each an address of its own with --advertise"
    }
    unknown = [member("a", "sr1"), member("b", "sr1", since_ms=2000, claims=True)]
    assert elect(hold_election(unknown), {}) == unknown[1], "as the primary"


def test_a_duplicate_is_one_even_where_it_is_not_eligible() -> None:
    ballot = hold_election([member("a", "sr1"), member("b", "sr1", eligible=False)])
    assert set(ballot.rejected) == {"a", "b"}


def test_loopback_is_refused_among_others_only() -> None:
    local = member("a", "localhost", claims=True), member("b", "127.0.0.1")
    assert not hold_election(local).rejected
    ballot = hold_election([*local, member("c", "sr1")])
    assert elect(ballot, {}) == member("c", "sr1")
    assert not ballot.sticky
    assert ballot.rejected["a"].startswith(
        "node a at http://localhost:8081 advertises a loopback address, which node c"
    )


def test_each_is_reported_the_same_but_for_its_refusal() -> None:
    members = [member("a", "sr1"), member("b", "sr1"), member("c", "sr2")]
    ballot = hold_election(members)
    told = assignments(members, ballot, members[2])
    assert {one.primary for one in told.values()} == {"c"}
    assert [bool(told[name].rejected) for name in "abc"] == [True, True, False]


A, B = Identity("http", "sr1", 8081, eligible=True), Identity("http", "sr2", 8081, eligible=True)


def test_the_member_id_says_who_is_elected() -> None:
    assert interpret(Assignment(OK, "a", A), "a", A, primary=False) == Won()
    assert interpret(Assignment(OK, "b", B), "a", A, primary=True) == PrimaryIs(B)


def test_without_a_member_id_the_identity_does() -> None:
    assert interpret(Assignment(OK, "", A), "a", A, primary=False) == Won()
    assert interpret(Assignment(OK, "", B), "a", A, primary=False) == PrimaryIs(B)


def test_our_own_url_with_anothers_member_id_is_a_duplicate() -> None:
    told = interpret(Assignment(OK, "b", A), "a", A, primary=False)
    assert isinstance(told, NoPrimary)
    assert "http://sr1:8081" in told.reason


def test_with_duplicates_a_primary_stays_and_nobody_becomes_one() -> None:
    assert interpret(Assignment(DUPLICATE_URLS, "a", A), "a", A, primary=True) == Won()
    assert isinstance(interpret(Assignment(DUPLICATE_URLS, "a", A), "a", A, primary=False), NoPrimary)
    assert interpret(Assignment(DUPLICATE_URLS, "b", B), "a", A, primary=False) == PrimaryIs(B)


def test_the_refused_hear_why_and_all_hear_when_nobody_is_eligible() -> None:
    assert interpret(Assignment(DUPLICATE_URLS, "b", B, "so"), "a", A, primary=True) == NoPrimary(
        "so", rejected=True
    )
    assert isinstance(interpret(Assignment(OK, "", None), "a", A, primary=True), NoPrimary)


MEMBERS = st.lists(
    st.builds(
        member,
        st.sampled_from("abcdefg"),
        st.sampled_from(["sr1", "sr2", "sr3", "localhost"]),
        st.integers(1, 3),
        eligible=st.booleans(),
        claims=st.booleans(),
    ),
    unique_by=lambda one: one.id,
    max_size=6,
)


@given(MEMBERS)
def test_all_agree_and_at_most_one_wins(members: list[Member]) -> None:
    ballot = hold_election(members)
    chosen = elect(ballot, {})
    told = assignments(members, ballot, chosen)
    heard = {one.id: interpret(told[one.id], one.id, one.identity, primary=one.claims) for one in members}
    won = [name for name, event in heard.items() if event == Won()]
    assert won in ([], [chosen.id] if chosen else [])
    assert elect(hold_election(members[::-1]), {}) == chosen
    if chosen:
        assert won == [chosen.id]
