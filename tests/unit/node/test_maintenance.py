"""The pace of maintenance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from registry.node.maintenance import COUNT_S, count_blocks
from registry.store.layout import DamagedStore, StoreError


class Blocks:
    """Blocks that take ``each_s`` to count, by a clock of their own."""

    def __init__(self, left: int, each_s: float) -> None:
        self.left, self.each_s, self.steps = left, each_s, 0

    def step(self) -> bool:
        """Count a block; return true if none was left."""
        self.steps += 1
        self.left -= 1
        return self.left < 0

    def clock(self) -> float:
        return self.steps * self.each_s


def test_blocks_are_counted_without_pauses_until_the_time_is_up() -> None:
    blocks = Blocks(1000, COUNT_S / 8)
    assert not count_blocks(blocks.step, blocks.clock)
    assert blocks.steps == 8
    blocks.left = 5
    assert count_blocks(blocks.step, blocks.clock)


def test_a_block_that_takes_long_is_counted_alone() -> None:
    blocks = Blocks(10, 2 * COUNT_S)
    assert not count_blocks(blocks.step, blocks.clock)
    assert blocks.left == 9


def test_a_store_that_cannot_be_written_is_counted_later_and_a_damaged_one_is_reported() -> None:
    errors: Iterator[StoreError] = iter([StoreError("full"), DamagedStore("damaged")])

    def step() -> bool:
        raise next(errors)

    assert count_blocks(step)
    with pytest.raises(DamagedStore):
        count_blocks(step)
