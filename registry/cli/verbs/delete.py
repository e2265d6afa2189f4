"""``registrar delete`` and ``registrar undelete``, and the consequences of a deletion."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from registry.cli.client.client import listed_versions
from registry.cli.client.resources import (
    LATEST,
    ErrorAnswer,
    Found,
    Mode,
    Place,
    Version,
    VersionName,
    scope_path,
    subject_path,
    version_path,
)
from registry.cli.output import OK, REFUSED, Failure, Refusal, json_option, note, print_json, print_lines
from registry.cli.registry_flags import if_match_option, with_registry
from registry.cli.verb import Verb

from .askers import describe_askers, find_askers

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.promotion.performing import ImportJournal


class DoomedVersion(NamedTuple):
    """A version that is to be deleted."""

    version: int
    id: int
    deleted: bool  # softly, before
    referenced_by: list[int]  # ids of schemas that refer to it, which forbid it
    id_stays: bool  # readable by its id afterwards


class DeletionPlan(NamedTuple):
    """The consequences of a deletion."""

    subject: str
    whole: bool  # the subject, instead of some version
    permanent: bool
    versions: list[DoomedVersion]
    obstacles: list[str]  # sentences; empty if nothing forbids it
    warning: str = ""  # a sentence about what could not be found out
    askers: str = ""  # who has asked for what is to be deleted, if anybody has

    def as_json(self) -> dict[str, Any]:
        """Return the plan as the verb prints it."""
        return {
            "subject": self.subject,
            "permanent": self.permanent,
            "versions": [
                {
                    "version": each.version,
                    "id": each.id,
                    "softDeleted": each.deleted,
                    "referencedBy": each.referenced_by,
                    "idStaysReadable": each.id_stays,
                }
                for each in self.versions
            ],
            "obstacles": self.obstacles,
            "askers": self.askers,
        }


def plan_deletion(registry: RegistryClient, name: VersionName, *, permanent: bool) -> DeletionPlan:
    """Find out what deleting a version or a whole subject would do.

    Raises :class:`.resources.RegistryError`.
    """
    known = listed_versions(registry, name.subject, deleted=True)
    if name.version:
        found = registry.get(
            version_path(name.subject, name.version), Version, deleted=name.version != LATEST
        )
        wanted = [found["version"]]
    else:
        wanted = [number for number, gone in known.items() if permanent or not gone]
    ids = {
        number: registry.get(version_path(name.subject, number), Version, deleted=True)["id"]
        for number in wanted
    }
    doomed = [
        _examine_version(
            registry, name.subject, number, known, ids, permanent=permanent, whole=not name.version
        )
        for number in wanted
    ]
    obstacles = [
        f"version {each.version} is referred to by the schemas with the ids "
        f"{', '.join(map(str, each.referenced_by))}: delete those first"
        for each in doomed
        if each.referenced_by
    ]
    obstacles += [
        f"version {each.version} is soft-deleted already: use --permanent to remove it"
        for each in doomed
        if each.deleted and not permanent
    ]
    if doomed:
        path = version_path(name.subject, wanted[0])
        real = registry.get(path, Version, deleted=True)["subject"]
        if real != name.subject.removeprefix(":.:"):
            obstacles.append(f"{name.subject} is an alias of {real}: delete that subject instead")
    else:
        obstacles.append("all versions are soft-deleted already: use --permanent to remove them")
    mode, warning = _mode(registry, name.subject)
    if mode in ("READONLY", "READONLY_OVERRIDE"):
        obstacles.append(f"the mode of {name.subject} is {mode}, in which nothing is deleted")
    asked = find_askers(registry, name.subject)
    one = wanted[0] if name.version else None
    askers = "" if asked is None else describe_askers(asked, one, unnamed=True)
    return DeletionPlan(name.subject, not name.version, permanent, doomed, obstacles, warning, askers)


def _mode(registry: RegistryClient, subject: str) -> tuple[str, str]:
    """Return the mode in force, or why it is not known."""
    try:
        return registry.get(scope_path("mode", subject), Mode, defaultToGlobal=True)["mode"], ""
    except ErrorAnswer as error:
        if error.status in (403, 404, 405):  # of other registries, and where few may see it
            return "", f"the registry does not show its mode, which may forbid the deletion: {error}"
        raise


def _examine_version(
    registry: RegistryClient, subject: str, number: int, known: dict[int, bool], ids: dict[int, int], *,
    permanent: bool, whole: bool,
) -> DoomedVersion:  # fmt: skip
    """Find out what deleting one of the versions in ``ids`` (by number) would do; ``known``: if deleted."""
    schema_id = ids[number]
    try:
        path = f"{version_path(subject, number)}/referencedby"
        using = set(registry.get(path, list[int], deleted=permanent))
    except ErrorAnswer as error:
        if error.status != 404:
            raise
        using = set()  # Confluent's finds no references of a soft-deleted version
    holders = _holders(registry, schema_id, subject) if permanent else []
    if whole:
        # References from within the subject go with it.
        using.difference_update(ids.values())
    others = [each for each in holders if each[0] != subject or each[1] not in ids]
    return DoomedVersion(
        number, schema_id, known.get(number, False), sorted(using), not permanent or bool(others)
    )


def _holders(registry: RegistryClient, schema_id: int, subject: str) -> list[tuple[str, int]]:
    """Return the versions with an id."""
    found = registry.pages(f"/schemas/ids/{schema_id}/versions", Place, subject=subject, deleted=True)
    return [(each["subject"], each["version"]) for each in found]


_STATUS = (
    "Exit status: 0 deleted (or could be, with --dry-run), 1 refused or declined, 2 no answer or wrong usage."
)


@click.command("delete", cls=Verb, epilog=_STATUS)
@click.argument("name", metavar="SUBJECT[:VERSION]")
@click.option(
    "--dry-run", is_flag=True, help="Show what would be deleted and what it would break; delete nothing."
)
@click.option(
    "--permanent", is_flag=True, help="Delete permanently, with a soft deletion first if necessary."
)
@click.option(
    "--force",
    is_flag=True,
    help="With --permanent: also what messages still use (needs the permission force).",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@if_match_option
@json_option
@with_registry
def delete(
    registry: RegistryClient, *, name: str, dry_run: bool, permanent: bool, force: bool, yes: bool,
    if_match: str, as_json: bool,
) -> int:  # fmt: skip
    """Soft-delete a subject or version; "registrar undelete" restores it.

    Shows what the deletion would break. On a terminal it asks; elsewhere --permanent needs --yes.
    """
    if force and not permanent:
        raise click.UsageError("--force belongs to --permanent", click.get_current_context())
    if permanent and not (yes or dry_run or sys.stdin.isatty()):
        raise Failure("a permanent deletion without a terminal needs --yes")
    plan = plan_deletion(registry, VersionName.parse(name), permanent=permanent)
    if not as_json:
        print_lines(_consequences(plan))
    in_use = _versions_in_use(registry, plan) if permanent and not force else []
    if in_use:
        listed = ", ".join(map(str, in_use))
        note(
            f"messages need version {listed}: where deletions are guarded, what is deleted permanently "
            "without --force is only soft-deleted"
        )
    for text in filter(None, (plan.warning, *plan.obstacles)):
        note(text)
    done = declined = False
    if not plan.obstacles and not dry_run:
        done = yes or not sys.stdin.isatty() or click.confirm("Delete?", err=True)
        declined = not done
        if done:
            _delete(registry, plan, if_match, force=force)
    if as_json:
        print_json({**plan.as_json(), "deleted": done})
    elif done:
        print("deleted")
    return REFUSED if plan.obstacles or declined else OK


def _delete(registry: RegistryClient, plan: DeletionPlan, if_match: str, *, force: bool) -> None:
    """Delete what is planned, if the first step meets the condition; later ones find what that has made."""
    steps = [False, True] if plan.permanent else [False]
    softly = False
    for permanent in steps:
        doomed = [each for each in plan.versions if permanent or not each.deleted]
        params = {"permanent": permanent, "force": force and permanent}
        if not doomed:
            continue
        paths = [version_path(plan.subject, each.version) for each in doomed]
        try:
            for path in [subject_path(plan.subject)] if plan.whole else paths:
                registry.delete(path, if_match=if_match, **params)
        except ErrorAnswer:
            if softly:
                name = plan.subject if plan.whole else f"{plan.subject}:{plan.versions[0].version}"
                note(f"{name} is only soft-deleted; to restore it: registrar undelete {shlex.quote(name)}")
            raise
        if_match, softly = "", True


def _versions_in_use(registry: RegistryClient, plan: DeletionPlan) -> list[int]:
    """Return the versions of a plan that messages need, as far as the registry knows and shows that."""
    try:
        found = registry.get(f"/usage{subject_path(plan.subject)}", dict[str, Any])
    except ErrorAnswer as error:
        if error.status not in (403, 404, 405):
            raise
        return []
    doomed = {each.version for each in plan.versions}
    states = {each["version"]: each["state"] for each in found["versions"]}
    return sorted(number for number in doomed if states.get(number) == "used")


def _consequences(plan: DeletionPlan) -> Iterator[str]:
    how = "for good" if plan.permanent else "softly"
    yield f"{plan.subject}: {len(plan.versions)} version(s) to delete {how}"
    for each in plan.versions:
        stays = "stays readable" if each.id_stays else "is no longer readable"
        yield f"  version {each.version}: id {each.id} {stays}"
    if plan.askers:
        yield f"  {plan.askers}"


_MEMBERS = ("schema", "schemaType", "references", "metadata", "ruleSet")


@click.command(
    "undelete",
    cls=Verb,
    epilog="Exit status: 0 restored, 1 not soft-deleted or refused, 2 no answer.",
)
@click.argument("name", metavar="SUBJECT[:VERSION]")
@click.option(
    "--as-new", is_flag=True, help="Register the schema again as the next version, without changing the mode."
)
@json_option
@with_registry
def undelete(registry: RegistryClient, *, name: str, as_new: bool, as_json: bool) -> int:
    """Restore a soft-deleted version, or all of a subject, with their numbers and ids.

    A registry gives a version its former number only in mode IMPORT. The verb sets that mode for SUBJECT,
    registers the versions and restores the former mode; meanwhile other registrations in SUBJECT are
    refused. With --as-new the schema gets the next number and keeps its id. Permanent deletions cannot be
    undone.
    """
    from .plans import open_journal_or_fail, restore_modes  # noqa: PLC0415 - the help needs none of it

    wanted = VersionName.parse(name)
    with open_journal_or_fail(registry) as journal:
        restore_modes(registry, journal)
        lost = _deleted_versions(registry, wanted)
        with nullcontext() if as_new else _importing(registry, journal, wanted.subject):
            back = [_register(registry, wanted.subject, each, as_it_was=not as_new) for each in lost]
    found = [
        {"version": new["version"], "id": new["id"], "formerVersion": old["version"]}
        for old, new in zip(lost, back, strict=True)
    ]
    if as_json:
        print_json({"subject": wanted.subject, "versions": found})
    else:
        print_lines(f"{wanted.subject}: {_describe(each)}" for each in found)
    return OK


def _deleted_versions(registry: RegistryClient, wanted: VersionName) -> list[dict[str, Any]]:
    """Return the versions that are to come back."""
    known = listed_versions(registry, wanted.subject, deleted=True)
    gone = [number for number, deleted in known.items() if deleted and wanted.version in ("", str(number))]
    if not gone:
        raise Refusal(f"{wanted} has no soft-deleted version")
    return [registry.get(version_path(wanted.subject, number), Version, deleted=True) for number in gone]


def _describe(found: dict[str, Any]) -> str:
    if found["version"] == found["formerVersion"]:
        return f"version {found['version']} is back, id {found['id']}"
    return f"version {found['formerVersion']} is back as version {found['version']}, id {found['id']}"


def _register(
    registry: RegistryClient, subject: str, version: dict[str, Any], *, as_it_was: bool = False
) -> dict[str, Any]:
    body = {name: version[name] for name in _MEMBERS if version.get(name)}
    # Without If-Match: a number or id that another schema has got meanwhile is refused.
    exact = {"version": version["version"], "id": version["id"]} if as_it_was else {}
    registry.post(f"{subject_path(subject)}/versions", {**body, **exact})
    found: dict[str, Any] = registry.post(subject_path(subject), body, Found)
    return found


@contextmanager
def _importing(registry: RegistryClient, journal: ImportJournal, subject: str) -> Iterator[None]:
    """Set the mode IMPORT of a subject, and afterwards its former one."""
    from registry.cli.promotion.performing import own_mode, set_mode  # noqa: PLC0415 - as above

    from .plans import report_open_modes, terminated_like_interrupted  # noqa: PLC0415

    former = own_mode(registry, subject)
    if former == "IMPORT":
        yield
        return
    journal.begin({subject: former})
    try:
        with terminated_like_interrupted():
            set_mode(registry, subject, "IMPORT")
            yield
    finally:
        with report_open_modes(registry, journal):
            journal.restore(registry)
        journal.finish([subject])
