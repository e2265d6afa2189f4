"""Histories of a simulated cluster: frozen, killed, cut off and usurped primaries, lost and late appends.

Each seed is one history, always the same. ``python -m tests.simulation --minutes 10`` runs others.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from registry.domain.log_format.records import NOOP_KEY, Entry
from registry.log.contract import Claim

from .__main__ import part_of, seeds
from .history import Told, run
from .partition import InvalidEpoch, OutOfSequence, Partition

# What a killed node leaves behind is reported by Python 3.13 when its streams are collected.
pytestmark = pytest.mark.filterwarnings("ignore:loop is closed:ResourceWarning")

ROOT = Path(__file__).parents[2]
# The last two histories have a webhook, and hours without requests.
SEEDS, MODEL_SEEDS = (*range(10), 25, 176), range(16, 22)
DIGEST = "import sys; from tests.simulation.history import run; print(run(int(sys.argv[1])).digest)"


def history(seed: int, *, model: bool) -> Told:
    try:
        return run(seed, model=model)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.fixture(scope="module")
def told() -> list[Told]:
    return [history(seed, model=False) for seed in SEEDS]


def test_no_acknowledged_write_is_lost_and_no_id_is_given_twice(told: list[Told]) -> None:
    assert all(each.acknowledged > 0 for each in told)


def test_histories_that_found_a_fault_are_as_they_should_be() -> None:
    kept = tomllib.loads((Path(__file__).parent / "seeds.toml").read_text(encoding="utf-8"))["seed"]
    assert kept
    assert all(history(each["seed"], model=False).acknowledged > 0 for each in kept)


def test_the_model_of_the_log_obeys_the_same_laws() -> None:
    assert all(history(seed, model=True).acknowledged > 0 for seed in MODEL_SEEDS)


def test_a_seed_gives_the_same_history_in_another_process(told: list[Told]) -> None:
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    asked = subprocess.run(
        [sys.executable, "-c", DIGEST, "1"],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert asked.stdout.strip() == told[1].digest


def test_histories_hold_what_they_are_about(told: list[Told]) -> None:
    assert sum(each.claims for each in told) > 3 * len(told)
    assert sum(each.unknown for each in told) > 0
    assert sum(each.settled for each in told) > 0
    assert sum(each.losses for each in told) > 0
    assert sum(each.heard for each in told) > 0
    assert sum(each.posted for each in told) > 0
    assert sum(each.clashes for each in told) > 0
    assert sum(each.quiet for each in told) > 3600
    assert sum(each.acknowledged for each in told) > 20 * len(told)


ENTRIES = [Entry(NOOP_KEY, None)]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def partition(clock: Clock) -> Partition:
    return Partition(clock, lambda: 0, forget_s=60.0, epochs_max=3)


def produce(partition: Partition, claim: Claim, sequence: int) -> int:
    return partition.produce(claim, sequence, ENTRIES, "a", 1)


def test_the_partition_refuses_an_older_epoch_after_a_newer_ones_first(partition: Partition) -> None:
    older, _ = partition.init()
    newer, _ = partition.init()
    assert produce(partition, older, 0) == 0
    assert produce(partition, newer, 0) == 1
    with pytest.raises(InvalidEpoch):
        produce(partition, older, 1)


def test_the_partition_knows_a_batch_again_and_takes_no_gap(partition: Partition) -> None:
    claim, _ = partition.init()
    assert [produce(partition, claim, sequence) for sequence in (0, 1, 0)] == [0, 1, 0]
    with pytest.raises(OutOfSequence):
        produce(partition, claim, 3)
    assert partition.end == 2


def test_the_partition_forgets_an_idle_producer_and_takes_any_epoch(
    partition: Partition, clock: Clock
) -> None:
    older, _ = partition.init()
    newer, _ = partition.init()
    produce(partition, newer, 0)
    clock.now = 61.0
    assert produce(partition, older, 5) == 1


def test_used_up_epochs_give_another_producer(partition: Partition) -> None:
    claims = [partition.init()[0] for _ in range(5)]
    assert [claim.epoch for claim in claims] == [0, 1, 2, 0, 1]
    assert len({claim.producer for claim in claims}) == 2


def test_parts_share_the_seeds_of_one_commit_among_them() -> None:
    parts = [list(seeds(100, 4, None, part_of(f"{part}/3"))) for part in (1, 2, 3)]
    assert sorted(itertools.chain(*parts)) == [*range(100, 112)]


@pytest.mark.parametrize("wrong", ["0/3", "4/3", "-1/3"])
def test_a_part_that_does_not_exist_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        part_of(wrong)
