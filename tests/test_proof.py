"""The patches of ``make sabotage``, the table of what noticed them, and the tests of the track record."""

from __future__ import annotations

import ast
import re
import subprocess

import pytest

from tests.sabotage.outcomes import (
    FOLDER,
    OVERVIEW,
    PAGE,
    QUICK_S,
    ROOT,
    SIMULATION,
    UNITS,
    Outcome,
    is_outdated,
    recorded,
    sabotages,
    summary,
)

# The goal; it may only rise.
QUICK_SHARE = 0.9
TRACK_RECORD = ROOT / "docs" / "track-record.md"
_DEFINITIONS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
TEST = re.compile(r"`(tests/[^`]+\.py::[^`]+)`")


def test_every_patch_applies_to_the_present_code() -> None:
    """A patch that does not apply breaks nothing, so no test could be shown to notice it."""
    patches = sorted(FOLDER.glob("*.patch"))
    assert patches
    command = ["git", "apply", "--check"]
    stale = [
        patch.name
        for patch in patches
        if subprocess.run([*command, str(patch)], cwd=ROOT, capture_output=True, check=False).returncode
    ]
    assert not stale


def test_every_patch_is_listed_with_checks_that_exist() -> None:
    known = sabotages()
    assert sorted(each.name for each in known) == sorted(each.stem for each in FOLDER.glob("*.patch"))
    checks = {check for each in known for check in each.checks if not check.startswith(SIMULATION)}
    assert [check for check in checks if not (ROOT / check).exists()] == []


def test_the_table_names_what_noticed_each_patch() -> None:
    page, outcomes = PAGE.read_text(encoding="utf-8"), recorded()
    assert list(outcomes) == [each.name for each in sabotages()], "make sabotage writes the table"
    assert [name for name, each in outcomes.items() if not each.test] == []
    assert all(f"| `{each.name}` | {each.guarantee} |" in page for each in sabotages())
    assert [each.test for each in outcomes.values() if not _exists(each.test)] == []


def test_most_patches_are_noticed_within_a_minute_by_unit_tests_or_the_simulation() -> None:
    outcomes = recorded().values()
    units = [each for each in outcomes if each.quick and each.test.startswith(UNITS)]
    assert len(units) >= QUICK_SHARE * len(outcomes), f"within {QUICK_S} s"
    assert summary(outcomes) in PAGE.read_text(encoding="utf-8")
    assert summary(outcomes) in OVERVIEW.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("test", "changed", "outdated"),
    [
        ("tests/unit/decide/test_ids.py::test_it", [], False),
        ("tests/unit/decide/test_ids.py::test_it", ["registry/domain/decide/deletes.py"], False),
        ("tests/unit/decide/test_ids.py::test_it", ["registry/domain/decide/ids.py"], True),
        ("tests/unit/decide/test_ids.py::test_it", ["tests/unit/decide/test_ids.py"], True),
        ("tests/unit/decide/test_ids.py::test_it", ["tests/sabotage/id-granted-twice.patch"], True),
        ("tests/unit/decide/test_ids.py::test_it", None, True),
        ("tests.simulation --seed 1 --rounds 1", ["registry/domain/decide/deletes.py"], True),
        ("tests.simulation --seed 1 --rounds 1", ["docs/api.md"], False),
        ("", [], True),
    ],
)
def test_an_outcome_is_outdated_once_what_it_says_may_have_changed(
    test: str, changed: list[str] | None, outdated: bool
) -> None:
    patch = next(each for each in sabotages() if each.name == "id-granted-twice")
    assert is_outdated(patch, Outcome(test, "1.0 s", "1234abcd, 2026-01-01"), changed) == outdated


def test_the_track_record_names_a_test_for_each_fault() -> None:
    rows = [line for line in TRACK_RECORD.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    faults = [line for line in rows if not line.startswith(("| fault |", "| --- |"))]
    assert len(faults) >= 40
    tests = [TEST.findall(line) for line in faults]
    assert [line for line, found in zip(faults, tests, strict=True) if len(found) != 1] == []
    assert [test for found in tests for test in found if not _exists(test)] == []


def _exists(test: str) -> bool:
    """Return true if the tree has a test with this id, which has no parameters, or it is a simulation."""
    if test.startswith(SIMULATION):
        return True
    file, *names = test.split("::")
    path = ROOT / file
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
    for name in names:
        defined = [each for each in body if isinstance(each, _DEFINITIONS) and each.name == name]
        body = defined[0].body if defined else []
    return bool(body)
