"""Numbers of subjects and versions, counted in rounds of small steps."""

from __future__ import annotations

from registry.domain.model import Subject
from registry.node.inventory import AT_ONCE_ROWS_MAX, DELETED, LIVE, Inventory
from registry.store.lmdb import Store
from tests.contract.store import test_counts
from tests.contract.store.test_counts import DELETED as SOFT_DELETED
from tests.contract.store.test_counts import GONE, commit
from tests.contract.store.test_counts import LIVE as AS_LIVE

store = test_counts.store


def test_steps_of_any_size_count_the_same(store: Store) -> None:
    said = [(Subject(".", f"s{n}"), 1, SOFT_DELETED if n % 3 == 0 else AS_LIVE) for n in range(20)]
    commit(store, [*said, (Subject(".", "s0"), 2, AS_LIVE), (Subject(".c", "s1"), 1, AS_LIVE)])
    for rows in (1, 7, 1000):
        inventory = Inventory(store)
        while not inventory.count(rows):
            pass
        stock = inventory.stock()
        assert stock.versions == {("AVRO", LIVE): 15, ("AVRO", DELETED): 7}
        assert stock.subjects == {LIVE: 15, DELETED: 6}


def test_a_round_begins_only_if_something_was_applied_since_the_last_one(store: Store) -> None:
    commit(store, [(Subject(".", f"s{n}"), 1, AS_LIVE) for n in range(5)])
    inventory = Inventory(store)
    assert not inventory.count(3)
    assert not inventory.ended
    commit(store, [(Subject(".", "s9"), 1, AS_LIVE)])
    assert inventory.count(9), "the end of a round that began before the last commit"
    assert not inventory.count(3)
    assert inventory.count(9)
    assert inventory.ended
    assert inventory.count(1), "nothing to count"
    assert inventory.stock().subjects == {LIVE: 6}


def test_a_large_store_has_no_numbers_before_it_was_counted_once(store: Store) -> None:
    commit(store, [(Subject(".", f"s{n}"), 1, AS_LIVE) for n in range(AT_ONCE_ROWS_MAX // 2)])
    assert store.stat().rows > AT_ONCE_ROWS_MAX
    inventory = Inventory(store)
    assert inventory.stock() is None
    assert not inventory.count(5)
    assert inventory.stock() is None
    while not inventory.count(10_000):
        pass
    assert inventory.stock().subjects == {LIVE: AT_ONCE_ROWS_MAX // 2}


def test_a_small_store_is_counted_as_it_is_in_the_middle_of_a_round_too(store: Store) -> None:
    commit(store, [(Subject(".", f"s{n}"), 1, AS_LIVE) for n in range(5)])
    inventory = Inventory(store)
    assert not inventory.count(3)
    commit(store, [(Subject(".", "s0"), 1, GONE), (Subject(".", "s0"), 2, SOFT_DELETED)])
    assert inventory.stock().subjects == {LIVE: 4, DELETED: 1}
    assert inventory.stock() is inventory.stock(), "not counted again while nothing changes"
