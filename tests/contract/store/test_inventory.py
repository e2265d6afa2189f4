"""Numbers of subjects and versions, counted in rounds of small steps."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from registry.domain.log_format.records import Record, context_key, free_range_name, reservation_key
from registry.domain.log_format.values import context_value, reservation_value
from registry.domain.model import ID_MAX, Subject
from registry.node.inventory import DELETED, FULLEST, LIVE, SMALL_ROWS_MAX, STEP_ROWS, Inventory, Stock
from registry.store.lmdb import Store
from tests.contract.store import test_counts
from tests.contract.store.test_counts import DELETED as SOFT_DELETED
from tests.contract.store.test_counts import GONE, append, commit, record
from tests.contract.store.test_counts import LIVE as AS_LIVE

store = test_counts.store


def recounted(inventory: Inventory) -> Stock | None:
    asyncio.run(inventory.recount())
    return inventory.stock


def test_steps_of_any_size_count_the_same(store: Store) -> None:
    said = [(Subject(".", f"s{n}"), 1, SOFT_DELETED if n % 3 == 0 else AS_LIVE) for n in range(20)]
    commit(store, [*said, (Subject(".", "s0"), 2, AS_LIVE), (Subject(".c", "s1"), 1, AS_LIVE)])
    for rows in (1, 7, 1000):
        inventory = Inventory(store)
        while not inventory.count(rows):
            pass
        stock = inventory.stock
        assert stock.versions == {("AVRO", LIVE): 15, ("AVRO", DELETED): 7}
        assert stock.subjects == {LIVE: 15, DELETED: 6}


def test_a_round_begins_only_if_something_was_applied_since_the_last_one(store: Store) -> None:
    commit(store, [(Subject(".", f"s{n}"), 1, AS_LIVE) for n in range(5)])
    inventory = Inventory(store)
    assert not inventory.count(3)
    assert not inventory.is_between_rounds
    commit(store, [(Subject(".", "s9"), 1, AS_LIVE)])
    assert inventory.count(9), "the end of a round that began before the last commit"
    assert not inventory.count(3)
    assert inventory.count(9)
    assert inventory.is_between_rounds
    assert inventory.count(1), "nothing to count"
    assert inventory.stock.subjects == {LIVE: 6}


def test_the_contexts_that_have_used_most_ids_are_reported(store: Store) -> None:
    names = [f".c{n}" for n in range(FULLEST + 3)] + [".l" + "o" * 200]
    reserved = {name: (n + 1) * 1_000_000 for n, name in enumerate(names)}
    for name, upto in reserved.items():
        append(store, [Record(store.applied, 0, context_key(name), context_value(name))])
        append(store, [Record(store.applied, 0, reservation_key(name), reservation_value(upto))])
    free = reservation_key(free_range_name(".c11", 12_000_000 - 1))
    append(store, [Record(store.applied, 0, free, reservation_value(999))])
    append(store, [record(store.applied, Subject(".", "s"), 1, AS_LIVE, schema_id=ID_MAX // 2)])
    stock = recounted(Inventory(store))
    expected = {".": ID_MAX // 2, **{name: reserved[name] for name in (*names[2:11], names[12])[-FULLEST:]}}
    assert stock.ids_used == {name: taken / ID_MAX for name, taken in expected.items()}
    for rows in (1, 7):
        inventory = Inventory(store)
        while not inventory.count(rows):
            pass
        assert inventory.stock == stock


def test_a_large_store_has_no_numbers_before_it_was_counted_once(store: Store) -> None:
    commit(store, [(Subject(".", f"s{n}"), 1, AS_LIVE) for n in range(SMALL_ROWS_MAX // 2)])
    assert store.stat().rows > SMALL_ROWS_MAX
    inventory = Inventory(store)
    assert recounted(inventory) is None
    assert not inventory.count(5)
    assert recounted(inventory) is None
    while not inventory.count(10_000):
        pass
    stock = inventory.stock
    assert stock.subjects == {LIVE: SMALL_ROWS_MAX // 2}


def test_a_small_store_is_counted_as_it_is_in_the_middle_of_a_round_too(store: Store) -> None:
    commit(store, [(Subject(".", f"s{n}"), 1, AS_LIVE) for n in range(5)])
    inventory = Inventory(store)
    assert not inventory.count(3)
    commit(store, [(Subject(".", "s0"), 1, GONE), (Subject(".", "s0"), 2, SOFT_DELETED)])
    assert recounted(inventory).subjects == {LIVE: 4, DELETED: 1}
    assert recounted(inventory) is recounted(inventory), "not counted again while nothing changes"


def test_a_small_store_is_counted_in_steps_between_which_others_get_their_turn(store: Store) -> None:
    commit(store, [(Subject(".", f"s{n}"), 1, AS_LIVE) for n in range(5 * STEP_ROWS)])
    inventory = Inventory(store)

    counting, turns = inventory.recount(), 0
    with suppress(StopIteration):
        while True:
            counting.send(None)
            turns += 1
    assert turns >= 5
    assert inventory.stock.subjects == {LIVE: 5 * STEP_ROWS}
