"""The patches with their guarantees, and the table of docs/sabotage.md: which test noticed each, and when."""

from __future__ import annotations

import datetime as dt
import re
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PAGE = ROOT / "docs" / "sabotage.md"
OVERVIEW = ROOT / "docs" / "proof.md"
# The checks that are arguments of ``python -m``, and what begins the names of those that start no process.
SIMULATION = "tests.simulation"
UNITS = ("tests/unit/", "tests/simulation/", SIMULATION)
QUICK = (*UNITS, "tests/api/")
# What simulated histories run: with other code, a seed is another history.
SIMULATED = ("registry/", "election/", "tests/simulation/")
# Seconds of CPU within which nine in ten patches are to be noticed by those.
QUICK_S = 60
_HEAD = "| patch | guarantee that it breaks | noticed by | after | at |\n| --- | --- | --- | --- | --- |"


class Sabotage(NamedTuple):
    """A patch by its name, the guarantee that it breaks, and the tests that must notice, cheap ones first."""

    name: str
    guarantee: str
    checks: list[str]

    @property
    def patch(self) -> Path:
        """The file of the patch."""
        return FOLDER / f"{self.name}.patch"

    @property
    def files(self) -> set[str]:
        """The patch, and the files that it changes."""
        changed = re.findall(r"^\+\+\+ b/(.*)$", self.patch.read_text(encoding="utf-8"), re.MULTILINE)
        return {*changed, str(self.patch.relative_to(ROOT))}


class Outcome(NamedTuple):
    """The outcome of one patch, as in its row of the table."""

    # The first test that failed, or the history that did; empty if none.
    test: str
    # Seconds of CPU until then; or why no test noticed.
    after: str
    # The commit that was tried, and the day.
    at: str

    @property
    def commit(self) -> str:
        """The commit that was tried."""
        return self.at.partition(",")[0]

    @property
    def quick(self) -> bool:
        """True if a test that starts no process noticed in time."""
        return self.test.startswith(QUICK) and float(self.after.split()[0]) < QUICK_S


def sabotages() -> list[Sabotage]:
    """Return all patches, as guarantees.toml lists them."""
    table = tomllib.loads((FOLDER / "guarantees.toml").read_text(encoding="utf-8"))
    return [Sabotage(name, **entry) for name, entry in table.items()]


def is_outdated(sabotage: Sabotage, outcome: Outcome, changed: Collection[str] | None) -> bool:
    """Return true if the outcome of a patch may be another one now, or if there was none.

    ``changed``: the files that differ from those that were tried; ``None`` if that is not known.
    """
    if changed is None or not outcome.test:
        return True
    if outcome.test.startswith(SIMULATION):
        return any(each.startswith(SIMULATED) for each in changed)
    return not {outcome.test.partition("::")[0], *sabotage.files}.isdisjoint(changed)


def stamp(commit: str) -> str:
    """Return a commit and the present day, as the table has them."""
    return f"{commit}, {dt.datetime.now(dt.UTC).date()}"


def recorded() -> dict[str, Outcome]:
    """Return the outcomes of the table by the names of the patches."""
    return dict(_rows(_part(PAGE)[1]))


def record(new: dict[str, Outcome]) -> None:
    """Write outcomes into the table, which keeps those of the other patches, and their sum into proof.md."""
    outcomes = recorded() | new
    known = [(each, outcomes[each.name]) for each in sabotages() if each.name in outcomes]
    rows = [_row(*each) for each in known]
    _write(PAGE, "\n".join([summary(outcome for _, outcome in known), "", _HEAD, *rows]))
    _write(OVERVIEW, summary(outcome for _, outcome in known))


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return a paragraph with the number of patches, and how many which kinds of tests noticed."""
    known = list(outcomes)
    caught, quick = sum(bool(each.test) for each in known), [each for each in known if each.quick]
    units = sum(each.test.startswith(UNITS) for each in quick)
    return textwrap.fill(
        f"Of {len(known)} patches, tests notice {caught}: {units} are noticed by unit tests or the simulation"
        f" within {QUICK_S} s of CPU, {len(quick) - units} by tests that call the API in their own process, "
        f"{caught - len(quick)} by tests with real stores, processes or brokers.",
        118,
    )


def _row(sabotage: Sabotage, outcome: Outcome) -> str:
    test = f"`{outcome.test}`" if outcome.test else "**nothing**"
    return f"| `{sabotage.name}` | {sabotage.guarantee} | {test} | {outcome.after} | {outcome.at} |"


def _rows(text: str) -> Iterator[tuple[str, Outcome]]:
    for line in text.splitlines():
        if line.startswith("| `"):
            name, _, test, after, at = (cell.strip() for cell in line.strip("|").split(" | "))
            yield name.strip("` "), Outcome(test.strip("`") if test.startswith("`") else "", after, at)


def _part(page: Path) -> tuple[str, str, str]:
    """Return a page's text before the generated part, that part, and the text after it."""
    before, start, rest = page.read_text(encoding="utf-8").partition(
        "<!-- sabotage: written by make sabotage -->\n"
    )
    part, end, after = rest.partition("\n<!-- end of sabotage -->")
    if not end:
        raise ValueError(f"{page} has no part for the outcomes")
    return before + start, part, end + after


def _write(page: Path, part: str) -> None:
    before, _, after = _part(page)
    page.write_text(before + part + after, encoding="utf-8")
