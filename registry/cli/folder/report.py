"""Verdicts and plans as text for people, as JSON, and as annotations of GitHub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final

from registry.domain.commands import DeleteSubject
from registry.domain.compatibility.printing import change_entity, change_lines

from .checking import Linted
from .steps import REFUSED, Outcome, Plan

_SIGNS: Final = {"new": "+", "compatible": "+", "unchanged": "=", "skipped": "!"}


def verdict_lines(plan: Plan, *, details: bool = False) -> Iterator[str]:
    """Yield the verdict on each version, and for refused ones each change with its fix.

    ``details``: list the compatible changes, too.
    """
    more = _consequences(plan)
    for each in plan.outcomes:
        if (each.verdict == "unchanged" or each.because) and not details:
            continue
        yield (
            f"{_SIGNS.get(each.verdict, '!')} {_place(each.subject, each.version.origin)}: {_describe(each)}"
        )
        if details or each.verdict in REFUSED:
            yield from _change_lines(each, compatible=details)
            yield from _consequence_lines(each, more)
    for step in plan.steps:
        if step.sign == "-":
            yield f"- {step.shows}"
    yield from _problem_lines(plan)
    refused, checked = len(plan.refused_outcomes), len(plan.outcomes)
    schemas = f"{checked} {'schema' if checked == 1 else 'schemas'}"
    yield f"{refused} of {schemas} refused" if refused else f"{schemas} accepted"
    if plan.problems:
        count = len(plan.problems)
        yield f"{count} other {'change' if count == 1 else 'changes'} refused"


def _consequences(plan: Plan) -> Counter[str]:
    """Return the number of refusals that each subject causes apart from its own."""
    return Counter(each.because for each in plan.outcomes if each.because)


def _consequence_lines(outcome: Outcome, more: Counter[str]) -> Iterator[str]:
    """Yield how many refusals this one causes; it is reported once."""
    count = 0 if outcome.because or outcome.verdict not in REFUSED else more.pop(outcome.subject, 0)
    if count:
        yield f"    because of this, {count} more {'schema is' if count == 1 else 'schemas are'} refused"


def _change_lines(outcome: Outcome, *, compatible: bool) -> Iterator[str]:
    changes = [] if outcome.result is None else outcome.result.changes
    shown = [each for each in changes if compatible or not each.change.compatible]
    if shown:
        yield from (f"    {line}" if line else "" for line in change_lines(shown))
        yield ""


def _problem_lines(plan: Plan) -> Iterator[str]:
    for problem in plan.problems:
        yield f"! {problem.subject or 'the top level'}: {problem.message}"
    for note in plan.notes:
        yield f"note: {note}"


def _describe(outcome: Outcome) -> str:
    if outcome.verdict == "incompatible":
        level = outcome.result.level if outcome.result is not None else ""
        return f"incompatible at {level}"
    return outcome.verdict + (f": {outcome.message}" if outcome.message else "")


def _place(subject: str, origin: str) -> str:
    return f"{subject} ({origin})" if origin else subject


def verdict_json(plan: Plan) -> dict[str, Any]:
    """Return the verdicts as a JSON object."""
    return {
        "accepted": plan.possible,
        "schemas": [_outcome_json(each) for each in plan.outcomes],
        "deletions": [each.command.subject for each in plan.steps if isinstance(each.command, DeleteSubject)],
        "problems": [{"subject": each.subject, "message": each.message} for each in plan.problems],
        "notes": plan.notes,
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    result = outcome.result
    return {
        "subject": outcome.subject,
        "file": outcome.version.origin or None,
        "verdict": outcome.verdict,
        "version": outcome.number or None,
        "level": None if result is None else result.level,
        "message": outcome.message or None,
        "because": outcome.because or None,
        "changes": [] if result is None else [change_entity(each) for each in result.changes],
    }


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the steps like a diff; before them, what would be refused."""
    more = _consequences(plan)
    for each in plan.refused_outcomes:
        if each.because:
            continue
        yield f"! {_place(each.subject, each.version.origin)}: {_describe(each)}"
        yield from _change_lines(each, compatible=False)
        yield from _consequence_lines(each, more)
    for step in plan.steps:
        yield f"{step.sign} {step.shows}"
    yield from _problem_lines(plan)


def plan_json(plan: Plan, done: int) -> dict[str, Any]:
    """Return the steps and verdicts as a JSON object; ``done``: the number of steps that were taken."""
    steps = [
        {"sign": each.sign, "does": each.shows, "done": place < done} for place, each in enumerate(plan.steps)
    ]
    return {"possible": plan.possible, "steps": steps, **verdict_json(plan)}


def plan_annotations(plan: Plan, folder: PurePath) -> Iterator[str]:
    """Yield an annotation of GitHub for each cause of refusals; ``folder``: in the repository."""
    more = _consequences(plan)
    for each in plan.refused_outcomes:
        if each.because:
            continue
        changes = [] if each.result is None else each.result.changes
        fixes = [
            f"{one.change.type} at {one.change.path or '/'}: {one.change.fix}"
            for one in changes
            if not one.change.compatible
        ]
        consequences = (line.strip() for line in _consequence_lines(each, more))
        text = "\n".join([_describe(each).partition("\n")[0], *fixes, *consequences])
        yield _annotation("error", folder, each.version.origin, f"{each.subject} is refused", text)
    for problem in plan.problems:
        yield _annotation("error", folder, "", problem.subject, problem.message)


def lint_lines(found: Sequence[Linted]) -> Iterator[str]:
    """Yield the findings."""
    for each in found:
        place = _place(each.subject, each.version.origin)
        if each.invalid:
            yield f"{place}: error: {each.invalid}"
        for word, findings in (("error", each.errors), ("warning", each.warnings)):
            for one in findings:
                yield f"{place}: {word}: {one}"
    errors = sum(len(each.errors) + bool(each.invalid) for each in found)
    yield f"{len(found)} schemas: {errors} errors, {sum(len(each.warnings) for each in found)} warnings"


def lint_json(found: Iterable[Linted]) -> dict[str, Any]:
    """Return the findings as a JSON object."""
    schemas = [
        {
            "subject": each.subject,
            "file": each.version.origin or None,
            "invalid": each.invalid or None,
            "findings": [
                {"severity": word, **one._asdict()}
                for word, findings in (("error", each.errors), ("warning", each.warnings))
                for one in findings
            ],
        }
        for each in found
    ]
    return {"accepted": not any(each.is_refused for each in found), "schemas": schemas}


def lint_annotations(found: Iterable[Linted], folder: PurePath) -> Iterator[str]:
    """Yield an annotation of GitHub for each finding; ``folder``: where the files are in the repository."""
    for each in found:
        if each.invalid:
            title = f"{each.subject} is not valid"
            yield _annotation("error", folder, each.version.origin, title, each.invalid)
        for word, findings in (("error", each.errors), ("warning", each.warnings)):
            for one in findings:
                text = f"{one.path}: {one.message}; {one.fix}"
                yield _annotation(word, folder, each.version.origin, one.rule, text)


def _annotation(kind: str, folder: PurePath, file: str, title: str, text: str) -> str:
    place = f"file={_escape((folder / file).as_posix(), ',:')},title=" if file else "title="
    return f"::{kind} {place}{_escape(title, ',:')}::{_escape(text, '')}"


def _escape(text: str, more: str) -> str:
    for each in f"%\r\n{more}":
        text = text.replace(each, f"%{ord(each):02X}")
    return text
