"""Tokens of sessions: whom they admit, until when, and what ends them early."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from registry.domain.principal import Principal
from registry.security.authentication.passwords import Plain
from registry.security.authentication.sessions import WHOLE_S, Session, Sessions

KEY = b"k" * 32
LASTS_S = 900
# How far the clocks of two nodes may differ.
AHEAD_S = 300
ALICE = Principal("alice", frozenset({"b", "a"}))


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(tmp_path: Path, clock: Clock) -> Callable[..., Sessions]:
    """Return a function that opens the sessions of a host of the cluster, by its name."""

    def opened(name: str = "one", *keys: bytes) -> Sessions:
        return Sessions(keys or [KEY], tmp_path / name, LASTS_S, clock)

    return opened


def begun(sessions: Sessions, lasts_s: float = WHOLE_S, password: object = "p") -> bytes:
    until = Clock.now + lasts_s
    return sessions.begin(ALICE, "basic", sessions.proof(password), until)[0]


def verified(sessions: Sessions, token: bytes) -> Session:
    found = sessions.verify(token)
    assert found is not None
    return found


def test_a_token_says_who_signed_in_until_it_expires(node: Callable[..., Sessions], clock: Clock) -> None:
    token = begun(node())
    found = verified(node("another"), token)
    assert (found.principal, found.method, found.expires) == (ALICE, "basic", clock.now + LASTS_S)
    clock.now += LASTS_S - 1
    assert verified(node(), token)
    clock.now += 1
    assert node().verify(token) is None


def test_a_token_with_any_changed_byte_or_of_another_key_is_none(node: Callable[..., Sessions]) -> None:
    token = begun(node())
    for at in range(len(token)):
        changed = b"A" if token[at : at + 1] != b"A" else b"B"
        found = node().verify(token[:at] + changed + token[at + 1 :])
        # The last character has bits that stand for nothing.
        assert found is None or at == len(token) - 1
    assert node().verify(token[:-8]) is None
    assert node("one", b"x" * 32).verify(token) is None
    assert verified(node("one", b"x" * 32, KEY), token), "a former key still counts"


def test_a_session_is_renewed_no_longer_than_its_credentials_count(
    node: Callable[..., Sessions], clock: Clock
) -> None:
    sessions = node()
    token = begun(sessions, LASTS_S + 60)
    clock.now += LASTS_S - 1
    renewed, lasts_s = sessions.renew(verified(sessions, token))
    assert lasts_s == 61
    clock.now += 60
    assert verified(sessions, renewed)
    clock.now += 1
    assert sessions.verify(renewed) is None


def test_the_end_of_a_session_ends_all_its_tokens_also_one_that_a_node_with_a_clock_ahead_has_renewed(
    node: Callable[..., Sessions], clock: Clock
) -> None:
    sessions, other = node(), node("other")
    token = begun(sessions)
    clock.now += LASTS_S - 1
    session = verified(sessions, token)
    clock.now += AHEAD_S
    renewed, lasts_s = other.renew(session)
    clock.now -= AHEAD_S
    sessions.end(session)
    assert sessions.verify(token) is None
    clock.now += AHEAD_S + lasts_s - 1
    assert verified(other, renewed), "that node has not heard of the end"
    sessions.end(verified(sessions, begun(sessions)))  # which forgets ends that no longer count
    assert sessions.verify(renewed) is None


def test_a_session_is_proven_by_the_password_that_began_it_alone(node: Callable[..., Sessions]) -> None:
    sessions = node()
    session = verified(sessions, begun(sessions, password=Plain(b"one")))
    assert sessions.proves(session, Plain(b"one"))
    assert not sessions.proves(session, Plain(b"two"))
    assert not node("one", b"x" * 32).proves(session, Plain(b"one"))
