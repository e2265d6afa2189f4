"""The model of the protocol: its checks by TLC, and histories of the simulation replayed against it."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from tests.simulation.history import traced

from .replay import Event, events
from .tlc import CHECKED, NEEDED, Bounds, check, replay

ROOT = Path(__file__).parents[2]
SMALL = Bounds(epochs=1, sent=2, cuts=1, readers=1)
SEEDS, MANY = 3, 60


def test_every_promise_holds_in_a_small_model() -> None:
    found = check(SMALL)
    assert (found.violated, found.states > 1000) == ("", True)


def test_each_assumption_on_kafka_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")
    table = page.split("### What is assumed about Kafka")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    named = [re.findall(r"`(tests/\S+\.py)::(\w+)`", row) for row in rows]
    assert all(named)
    for path, name in {each for found in named for each in found}:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("bounds", CHECKED, ids=str)
def test_every_promise_holds(bounds: Bounds) -> None:
    assert not check(bounds).violated


@pytest.mark.long
@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_is_needed(rule: str) -> None:
    bounds, missed = NEEDED[rule]
    assert check(bounds, rule, [missed]).violated == missed


def index(history: list[Event], what: str, *, since: int = 0) -> int:
    return next(number for number in range(since, len(history)) if history[number]["what"] == what)


def written(history: list[Event]) -> list[Event]:
    """Return the writes that assign ids."""
    return [each for each in history if each["what"] == "write" and any(each["batches"])]


def lead_too_early(history: list[Event]) -> None:
    """Take away what the first primary applied: its own barrier."""
    lead = index(history, "lead")
    assert history[lead - 1]["what"] == "apply"
    del history[lead - 1]


def answer_too_early(history: list[Event]) -> None:
    acknowledged = index(history, "acknowledge")
    answer = index(history, "answer", since=index(history, "query", since=acknowledged))
    history[answer]["end"] = 0


def acknowledge_too_early(history: list[Event]) -> None:
    history[index(history, "acknowledge")]["end"] += 1


def write_as_another(history: list[Event]) -> None:
    write = history[index(history, "write")]
    write["node"] = {"n0": "n1", "n1": "n2", "n2": "n0"}[write["node"]]


def give_an_id_twice(history: list[Event]) -> None:
    first, *_, last = written(history)
    last["batches"][-1] = next(filter(None, first["batches"]))


def arrive_twice(history: list[Event]) -> None:
    arrival = index(history, "arrive")
    history.insert(arrival, deepcopy(history[arrival]))


def arrive_late(history: list[Event]) -> None:
    """Move the first write behind everything else: those after it come out of their turn."""
    arrival = index(history, "arrive", since=index(history, "write"))
    history.append(history.pop(arrival))


SABOTAGES: tuple[Callable[[list[Event]], None], ...] = (
    lead_too_early, answer_too_early, acknowledge_too_early, write_as_another, give_an_id_twice,
    arrive_twice, arrive_late,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:loop is closed:ResourceWarning")  # as in tests/simulation
def test_histories_of_the_simulation_are_behaviors_of_the_model_and_sabotaged_ones_are_not() -> None:
    histories = [events(traced(seed)) for seed in range(SEEDS)]
    sabotaged = [deepcopy(histories[0]) for _ in SABOTAGES]
    for sabotage, history in zip(SABOTAGES, sabotaged, strict=True):
        sabotage(history)
    reached = replay([*histories, *sabotaged])
    assert reached[:SEEDS] == [len(each) for each in histories]
    complete = zip(SABOTAGES, sabotaged, reached[SEEDS:], strict=True)
    assert [sabotage.__name__ for sabotage, history, count in complete if count >= len(history)] == []


@pytest.mark.long
def test_many_histories_of_the_simulation_are_behaviors_of_the_model() -> None:
    histories = [events(traced(seed)) for seed in range(MANY)]
    claims = {tuple(each["claim"]) for history in histories for each in history if each["what"] == "claim"}
    assert {producer for producer, _ in claims} > {1}, "no history has claims of several producers"
    assert replay(histories) == [len(each) for each in histories]
