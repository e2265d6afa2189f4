"""``registrar unused``: versions that no data needs, and a plan to delete them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypedDict

import click

from registry.cli.client.resources import ErrorAnswer, subject_path, version_path
from registry.cli.output import (
    OK,
    REFUSED,
    Failure,
    Refusal,
    json_option,
    note,
    print_json,
    print_table,
)
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb

from .askers import describe_askers, find_askers

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.folder.contents import Contents, Version

_DAYS = re.compile(r"([0-9]{1,6})(d|h)")
_HOUR_MS = 3_600_000
_SOFT, _PERMANENT, _KEEP = "delete", "delete permanently", "keep"


class UnusedVersion(TypedDict):
    """A version that the newest census found unused."""

    version: int
    id: int
    ts: int
    deleted: bool
    deletedAt: NotRequired[int | None]


class SubjectUsage(TypedDict):
    """A subject as ``/usage/subjects`` lists it."""

    subject: str
    versions: int
    used: int
    unknown: int
    latest: int | None
    messages: int
    last: int
    sourceCount: int
    hasTopic: bool
    unused: list[UnusedVersion]
    # Only where it was asked for.
    askerCount: NotRequired[int | None]
    lastAsked: NotRequired[str | None]


class CensusShown(TypedDict):
    """The newest census."""

    id: str
    started: int
    ended: int
    complete: bool


class VersionPlan(NamedTuple):
    """A step of the plan: an unused version, what happens to it, and why."""

    subject: str
    found: UnusedVersion
    action: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the step as the verb prints it."""
        found = self.found
        return {
            "subject": self.subject, "version": found["version"], "id": found["id"],
            "registered": None if found["deleted"] else found["ts"], "softDeleted": found["deleted"],
            "action": self.action, "reason": self.reason,
        }  # fmt: skip


class _Age(click.ParamType[int]):
    """A duration such as 90d or 12h, in ms."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _DAYS.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is not a number of days or hours, such as 90d or 12h", param, ctx)
        return int(found[1]) * _HOUR_MS * (24 if found[2] == "d" else 1)


AGE = _Age()


@click.command(
    "unused",
    cls=Verb,
    epilog="Exit status: 0 listed or deleted, 1 refused or declined, 2 no answer or no census.",
)
@click.argument("prefix", default="")
@click.option(
    "--older-than", type=AGE, default="90d", help="Only versions registered longer ago [default: 90d]."
)
@click.option("--delete", "delete", is_flag=True, help="Plan to soft-delete them; --yes carries it out.")
@click.option(
    "--permanent-after",
    type=AGE,
    metavar="AGE",
    help="With --delete: delete permanently what was soft-deleted longer ago.",
)
@click.option("--yes", is_flag=True, help="Carry out the plan of --delete.")
@json_option
@with_registry
def list_unused(
    registry: RegistryClient, *, prefix: str, older_than: int, delete: bool, permanent_after: int | None,
    yes: bool, as_json: bool,
) -> int:  # fmt: skip
    """List the versions that no message needs, in subjects with PREFIX, as the newest complete census found.

    --delete plans soft deletions, which "registrar undelete" reverses. --permanent-after also plans permanent
    ones, of versions that were soft-deleted before. The latest version of a subject in use is kept.
    """
    if (yes or permanent_after is not None) and not delete:
        raise click.UsageError("--yes and --permanent-after belong to --delete", click.get_current_context())
    census = _census(registry)
    steps = list(_plan(registry, census, prefix, older_than, permanent_after))
    if delete:
        steps = list(_with_askers(registry, steps))
    if not as_json:
        _print_plan(census, steps, delete=delete)
    refused = _carry_out(registry, steps) if yes else []
    if as_json:
        done = [
            {**each.as_json(), "refused": dict(refused).get(number, "")} for number, each in enumerate(steps)
        ]
        print_json({"census": dict(census), "done": yes, "versions": done})
    for number, reason in refused:
        note(f"{steps[number].subject} version {steps[number].found['version']}: {reason}")
    return REFUSED if refused else OK


def _census(registry: RegistryClient) -> CensusShown:
    try:
        found: CensusShown = registry.get("/usage/census", CensusShown)
    except ErrorAnswer as error:
        raise Failure(str(error)) from None
    if not found["complete"]:
        raise Refusal(f"the newest census, {found['id']}, is not complete: it cannot say what is unused")
    return found


def _plan(
    registry: RegistryClient, census: CensusShown, prefix: str, older_than: int, permanent_after: int | None
) -> Iterator[VersionPlan]:
    """Yield what to do with each unused version, the newest of a subject first: it may refer to others."""
    now = time.time_ns() // 1_000_000
    for each in registry.pages("/usage/subjects", SubjectUsage, subjectPrefix=prefix or ":*:", unused=True):
        for found in reversed(each["unused"]):
            if found["deleted"]:
                yield VersionPlan(each["subject"], found, *_final_action(census, found, now, permanent_after))
            elif now - found["ts"] >= older_than:
                yield VersionPlan(each["subject"], found, *_first_action(each, found))


def _with_askers(registry: RegistryClient, steps: Iterable[VersionPlan]) -> Iterator[VersionPlan]:
    """Yield the steps; the reasons of deletions say who has asked for the version."""
    for subject, of_subject in groupby(steps, lambda each: each.subject):
        planned = list(of_subject)
        found = find_askers(registry, subject) if any(each.action != _KEEP for each in planned) else None
        for each in planned:
            asked = "" if found is None else describe_askers(found, each.found["version"])
            named = asked and each.action != _KEEP
            yield each._replace(reason=f"{each.reason}; {asked}") if named else each


def _first_action(subject: SubjectUsage, found: UnusedVersion) -> tuple[str, str]:
    if found["version"] == subject["latest"] and subject["used"] + subject["unknown"]:
        return _KEEP, "the latest version of a subject in use"
    return _SOFT, f"unused, registered {_day(found['ts'])}"


def _final_action(
    census: CensusShown, found: UnusedVersion, now: int, permanent_after: int | None
) -> tuple[str, str]:
    since = found.get("deletedAt")
    if since is None or since >= census["started"]:
        return _KEEP, "soft-deleted after the census began"
    if permanent_after is None or now - since < permanent_after:
        return _KEEP, f"soft-deleted {_day(since)}"
    return _PERMANENT, f"unused, soft-deleted {_day(since)}"


def _carry_out(registry: RegistryClient, steps: list[VersionPlan]) -> list[tuple[int, str]]:
    """Delete as planned; return what the registry refused, by the numbers of the steps."""
    refused = []
    for number, step in enumerate(steps):
        if step.action == _KEEP:
            continue
        path = version_path(step.subject, step.found["version"])
        # Without If-Match: what was restored since the plan was made is not deleted for good, but refused.
        try:
            registry.delete(path, permanent=step.action == _PERMANENT)
        except ErrorAnswer as error:
            if not (error.is_verdict or error.status == 403):
                raise
            refused.append((number, str(error)))
    return refused


def _print_plan(census: CensusShown, steps: list[VersionPlan], *, delete: bool) -> None:
    note(f"as of census {census['id']}, which ended {_day(census['ended'])}")
    columns = ("subject", "version", "id", "registered", "soft-deleted")
    rows = (
        (each.subject, each.found["version"], each.found["id"], *_dates(each.found))
        + ((each.action, each.reason) if delete else ())
        for each in steps
    )
    print_table((*columns, "action", "reason") if delete else columns, rows, right=("version", "id"))


def _dates(found: UnusedVersion) -> tuple[str, str]:
    """Return when a version was registered, or that it is soft-deleted."""
    return ("", "yes") if found["deleted"] else (_day(found["ts"]), "")


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


def only_used(registry: RegistryClient, present: Contents, subjects: Iterable[str]) -> Contents:
    """Return the contents of a registry such that checks compare with the versions that messages use.

    Of the given subjects, unused versions count as soft-deleted, except for the latest one; used ones do not.
    """
    _census(registry)
    found = dict(present.versions)
    for subject in subjects:
        if subject not in found:
            continue
        states = _states(registry, subject)
        latest = max((each.number for each in found[subject] if not each.deleted), default=0)
        found[subject] = tuple(
            replace(each, deleted=_is_left_out(states.get(each.number, ""), each, latest))
            for each in found[subject]
        )
        compared = [str(each.number) for each in found[subject] if not each.deleted]
        note(f"{subject}: compared with version {', '.join(compared)}, in use or the latest")
    return replace(present, versions=found)


def _states(registry: RegistryClient, subject: str) -> dict[int, str]:
    answer = registry.get(f"/usage{subject_path(subject)}", dict[str, Any])
    return {each["version"]: each["state"] for each in answer["versions"]}


def _is_left_out(state: str, each: Version, latest: int) -> bool:
    if state == "used" or each.number == latest:
        return False
    return each.deleted or state == "unused"


def print_usage(
    registry: RegistryClient, prefix: str, *, only_unused: bool, askers: bool, as_json: bool
) -> None:
    """Print the subjects with what the newest census found; ``askers``: and how many ask for each."""
    found = registry.pages("/usage/subjects", SubjectUsage, subjectPrefix=prefix or ":*:", unused=only_unused)
    if askers:
        found = (_with_asked(registry, each) for each in found)
    if as_json:
        print_json(list(found))
        return
    columns = ("subject", "versions", "used", "unused", "sources", "messages", "last message")
    rows = ((*_usage_row(each), *(_asked_row(each) if askers else ())) for each in found)
    print_table((*columns, *(_ASKED if askers else ())), rows, right=(*columns[1:-1], *_ASKED[:1]))


_ASKED = ("askers", "last asked")


def _usage_row(each: SubjectUsage) -> tuple[object, ...]:
    return (
        each["subject"], each["versions"], each["used"], len(each["unused"]), each["sourceCount"],
        each["messages"], _day(each["last"]) if each["last"] >= 0 else "",
    )  # fmt: skip


def _with_asked(registry: RegistryClient, each: SubjectUsage) -> SubjectUsage:
    """Return a subject with how many clients have asked for it and when last, if the registry says that."""
    found = find_askers(registry, each["subject"])
    count, last = (None, None) if found is None else (found["askerCount"], found["last"])
    return {**each, "askerCount": count, "lastAsked": last}


def _asked_row(each: SubjectUsage) -> tuple[object, ...]:
    count = each["askerCount"]
    return "" if count is None else count, each["lastAsked"] or ""
