"""The checker of histories: it takes what is legal, and refuses each kind of violation."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .check import Finding, NoHistory, check, is_available
from .histories import FORMAT, join
from .registry import READ_ONLY, Line, Registry, sequential

pytestmark = pytest.mark.skipif(not is_available(), reason="the checker needs Go")
RECORDED = Path(__file__).parent / "killed-primary.jsonl.gz"
HEADER = {"format": FORMAT}
SUBJECTS, SCHEMAS = ("a", "b"), ("x", "y", "z")


def findings(lines: list[Line]) -> list[Finding]:
    return check(join([HEADER, *lines]))


def whole() -> list[Line]:
    """Return a legal history with all operations; the indexes of its lines are those in the table below."""
    made = Registry()
    return sequential([
        made.write("register", "a", "x"),  # 0
        made.write("register", "a", "y"),  # 1
        made.write("register", "b", "z"),  # 2
        made.read("latest", "a"),  # 3
        made.read("list", "a"),  # 4
        made.by_id("a", "y"),  # 5
        made.write("set-config", "a", "FULL"),  # 6
        made.read("config", "a"),  # 7
        made.write("set-mode", "a", READ_ONLY),  # 8
        made.write("register", "a", "z"),  # 9: refused
        made.read("mode", "a"),  # 10
        made.write("delete-mode", "a"),  # 11
        made.read("mode", "a"),  # 12
        made.read("list", "a", at=0),  # 13
        made.read("latest", "a", at=1),  # 14
        made.read("config", "a", at=2),  # 15
        made.read("mode", "a", at=4),  # 16
        made.feed("a", after=-1),  # 17
        made.write("delete", "a"),  # 18
        made.read("list", "a"),  # 19
        made.read("latest", "a"),  # 20
        made.by_id("a", "x"),  # 21
        made.write("delete-config", "a"),  # 22
        made.read("config", "a"),  # 23
        made.feed("a", after=3),  # 24
    ])  # fmt: skip


# What is done to the lines above; each is a violation.
VIOLATIONS: dict[str, Callable[[list[Line]], object]] = {
    "an id for two schemas": lambda lines: lines[2].update(id=1),
    "two ids for one schema": lambda lines: lines[3].update(id=7),
    "another schema under an id": lambda lines: lines[5].update(schema="x"),
    "an acknowledged id that is missing": lambda lines: lines[5].update(outcome="missing"),
    "an id that goes with its subject": lambda lines: lines[21].update(outcome="missing"),
    "a version number twice": lambda lines: lines[1].update(version=1),
    "a version number skipped": lambda lines: lines[1].update(version=3),
    "a stale latest": lambda lines: lines[3].update(version=1, schema="x", id=1),
    "a latest from the future": lambda lines: lines[3].update(version=3, schema="z", id=3),
    "another schema as latest": lambda lines: lines[3].update(schema="x"),
    "an acknowledged version that is missing": lambda lines: lines[4].update(versions=[2]),
    "a stale list": lambda lines: lines[4].update(versions=[1]),
    "an acknowledged registration that is lost": lambda lines: lines[4].update(outcome="missing"),
    "a version that nobody registered": lambda lines: lines[4].update(versions=[1, 2, 3]),
    "a registration that failed and was done": lambda lines: lines[1].update(outcome="failed"),
    "a refused registration that was done": lambda lines: lines[1].update(outcome="refused", code=42205),
    "a refusal for no reason": lambda lines: lines[1].update(outcome="refused", code=40901),
    "a delete that leaves versions": lambda lines: lines[19].update(outcome="ok", versions=[1, 2]),
    "a latest after the delete": lambda lines: lines[20].update(outcome="ok", version=2, schema="y", id=2),
    "a delete of fewer versions": lambda lines: lines[18].update(versions=[1]),
    "a delete of nothing": lambda lines: lines[18].update(outcome="refused", code=40401),
    "a stale config": lambda lines: lines[7].update(outcome="missing"),
    "a config that nobody set": lambda lines: lines[7].update(value="NONE"),
    "a config after its deletion": lambda lines: lines[23].update(outcome="ok", value="FULL"),
    "a deletion of another config": lambda lines: lines[22].update(value="NONE"),
    "a stale mode": lambda lines: lines[10].update(outcome="missing"),
    "a mode after its deletion": lambda lines: lines[12].update(outcome="ok", value=READ_ONLY),
    "a registration though read-only": lambda lines: lines[9].update(outcome="ok", id=3, version=3, offset=6),
    "a write refused as read-only elsewhere": lambda lines: lines[6].update(outcome="refused", code=42205),
    "a past list that shows more": lambda lines: lines[13].update(versions=[1, 2]),
    "a past list that shows less": lambda lines: lines[13].update(outcome="missing"),
    "a past latest that is older": lambda lines: lines[14].update(version=1, schema="x", id=1),
    "a past config that is newer": lambda lines: lines[15].update(outcome="ok", value="FULL"),
    "a past mode that is newer": lambda lines: lines[16].update(outcome="missing"),
    "an event that is left out": lambda lines: lines[17]["events"].pop(1),
    "a last event that is left out": lambda lines: lines[17]["events"].pop(),
    "an event that comes twice": lambda lines: lines[17]["events"].insert(1, lines[17]["events"][0]),
    "events in another order": lambda lines: lines[17]["events"].reverse(),
    "an event of another version": lambda lines: lines[17]["events"][0].update(version=2),
    "an event with another id": lambda lines: lines[17]["events"][0].update(id=2),
    "an event with another level": lambda lines: lines[17]["events"][2].update(value="NONE"),
    "an event at another offset": lambda lines: lines[17]["events"][1].update(offset=2),
    "an event from before the page": lambda lines: lines[24]["events"].insert(0, lines[17]["events"][2]),
    "an acknowledgement from before the record": lambda lines: lines[1].update(offset=1),
}  # fmt: skip


def test_a_history_with_all_operations_is_legal() -> None:
    assert findings(whole()) == []


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_each_kind_of_violation_is_found(violation: str) -> None:
    lines = deepcopy(whole())
    VIOLATIONS[violation](lines)
    assert lines != whole()
    assert findings(lines)


def test_the_line_that_fits_nowhere_is_named() -> None:
    lines = whole()
    lines[4]["versions"] = [1]
    assert findings(lines) == [Finding("subject a", "Illegal", 4 + 2)]


def test_a_write_without_an_answer_may_have_happened_or_not_but_not_both() -> None:
    made = Registry()
    before = made.read("list", "a")
    lost = made.write("register", "a", "x") | {"outcome": "unknown"}
    after = made.read("list", "a")
    assert findings(sequential([lost, after, after])) == []
    assert findings(sequential([lost, before, before])) == []
    # It may also arrive late, but it cannot be undone.
    assert findings(sequential([lost, before, after])) == []
    assert findings(sequential([lost, after, before]))


@st.composite
def concurrent(draw: st.DrawFn) -> list[Line]:
    """Return operations that took effect one after another, at moments within intervals that overlap."""
    made = Registry()
    lines = []
    for number in range(draw(st.integers(1, 25))):
        line = draw(st.sampled_from(WRITES + READS))(made, draw)
        takes = draw(st.integers(0, 30))
        line |= {"began": 10 * number - takes, "ended": 10 * number + draw(st.integers(0, 30))}
        if line["op"] in ("register", "delete", "set-config") and draw(st.integers(0, 9)) == 0:
            line |= {"outcome": "unknown"}
        lines.append(line)
    return lines


def _write(op: str, *arguments: str) -> Callable[[Registry, st.DrawFn], Line]:
    return lambda made, draw: made.write(
        op, draw(st.sampled_from(SUBJECTS)), draw(st.sampled_from(arguments)) if arguments else ""
    )


def _read(op: str) -> Callable[[Registry, st.DrawFn], Line]:
    def read(made: Registry, draw: st.DrawFn) -> Line:
        at = draw(st.none() | st.integers(0, len(made.log) - 1)) if made.log else None
        return made.read(op, draw(st.sampled_from(SUBJECTS)), at)

    return read


def _feed(made: Registry, draw: st.DrawFn) -> Line:
    return made.feed(draw(st.sampled_from(SUBJECTS)), draw(st.integers(-1, max(-1, len(made.log) - 1))))


WRITES = [
    *[_write("register", *SCHEMAS)] * 3, _write("delete"), _write("set-config", "FULL", "NONE"),
    _write("delete-config"), _write("set-mode", READ_ONLY, "READWRITE"), _write("delete-mode"),
]  # fmt: skip
READS = [*map(_read, ("latest", "list", "config", "mode")), _feed]


@given(concurrent())
def test_overlapping_operations_in_a_legal_order_are_taken(lines: list[Line]) -> None:
    assert findings(lines) == []


def test_a_recorded_history_is_legal_and_holds_all_operations() -> None:
    recorded = gzip.decompress(RECORDED.read_bytes())
    assert check(recorded) == []
    lines = [orjson.loads(line) for line in recorded.splitlines()][1:]
    assert {each["op"] for each in lines} == {each["op"] for each in whole()}
    assert any("at" in each for each in lines)


def test_a_recorded_history_with_another_answer_is_refused() -> None:
    header, *lines = map(orjson.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())
    lists = [each for each in lines if each["op"] == "list" and each["outcome"] == "ok"]
    longest = max(lists, key=lambda each: len(each["versions"]))
    longest["versions"].pop()
    assert [found.part for found in check(join([header, *lines]))] == [f"subject {longest['subject']}"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "line 1: the format is not"),
        (b'{"format":"other"}\n', "line 1: the format is not"),
        (b'{"format":"registrar-history/1"}\n{"op":"dance"}\n', 'line 2: unknown op "dance"'),
        (b'{"format":"registrar-history/1"}\n{"op":"list"}\n', 'line 2: unknown outcome ""'),
        (b'{"format":"registrar-history/1"}\n{"op":"list","outcome":"ok","began":2}\n', "line 2: it ended"),
        (b'{"format":"registrar-history/1"}\n{\n', "line 2: "),
    ],
)
def test_what_is_no_history_is_said(text: bytes, reason: str) -> None:
    with pytest.raises(NoHistory, match=reason):
        check(text)


def test_the_command_shows_what_fits_nowhere(tmp_path: Path) -> None:
    lines = whole()
    lines[4]["versions"] = [1]
    path = tmp_path / "history.jsonl"
    path.write_bytes(join([HEADER, *lines]))
    command = [sys.executable, "-m", "tests.proof.check", path, RECORDED, "--picture", tmp_path / "part.html"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert f"{path}:6: subject a: Illegal: " in done.stdout
    assert f"{RECORDED}: " in done.stdout
    assert "not linearizable" in done.stdout
    assert (tmp_path / "part.html").stat().st_size
