"""The primaries that a node has seen."""

from __future__ import annotations

from registry.api.backend import Primacy
from registry.node.status import PRIMACIES_MAX, Primacies

A, B = ("a", "http://a"), ("b", "http://b")


def test_each_primary_is_listed_from_its_election_on_and_gets_its_epoch_once_it_has_claimed_the_log() -> None:
    seen = Primacies()
    seen.note(*A, epoch=-1, now_ms=1)
    assert seen.in_order() == [Primacy(1, *A, -1)]
    seen.note(*A, epoch=5, now_ms=2)
    assert seen.in_order() == [Primacy(1, *A, 5)]
    seen.note(*B, epoch=5, now_ms=3)  # still the epoch of the former
    assert seen.in_order()[1:] == [Primacy(3, *B, -1)]
    seen.note(*B, epoch=9, now_ms=4)
    seen.note(*B, epoch=9, now_ms=5)
    assert seen.in_order() == [Primacy(1, *A, 5), Primacy(3, *B, 9)]


def test_a_primary_that_claims_the_log_again_begins_another_epoch() -> None:
    seen = Primacies()
    seen.note(*A, epoch=5, now_ms=1)
    seen.note(*A, epoch=7, now_ms=2)
    assert seen.in_order() == [Primacy(1, *A, 5), Primacy(2, *A, 7)]


def test_only_the_newest_are_kept() -> None:
    seen = Primacies()
    for epoch in range(PRIMACIES_MAX + 5):
        seen.note(*(A, B)[epoch % 2], epoch=epoch, now_ms=epoch)
    assert [each.time for each in seen.in_order()] == list(range(5, PRIMACIES_MAX + 5))
