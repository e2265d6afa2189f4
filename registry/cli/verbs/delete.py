"""``registrar delete``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from registry.cli.client.deletion import DeletionPlan, plan_deletion
from registry.cli.client.paths import VersionName, subject_path, version_path
from registry.cli.exit_status import OK, REFUSED, Failure
from registry.cli.output import json_option, note, print_json, print_lines
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient

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
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@with_registry
def delete(
    registry: RegistryClient, *, name: str, dry_run: bool, permanent: bool, yes: bool, as_json: bool
) -> int:
    """Soft-delete a subject or version; "registrar undelete" restores it.

    Shows what the deletion would break. On a terminal it asks; elsewhere --permanent needs --yes.
    """
    if permanent and not (yes or dry_run or sys.stdin.isatty()):
        raise Failure("a permanent deletion without a terminal needs --yes")
    plan = plan_deletion(registry, VersionName.parse(name), permanent=permanent)
    if not as_json:
        print_lines(_consequences(plan))
    for text in filter(None, (plan.warning, *plan.obstacles)):
        note(text)
    done = declined = False
    if not plan.obstacles and not dry_run:
        done = yes or not sys.stdin.isatty() or click.confirm("Delete?", err=True)
        declined = not done
        if done:
            _delete(registry, plan)
    if as_json:
        print_json({**plan.as_json(), "deleted": done})
    elif done:
        print("deleted")
    return REFUSED if plan.obstacles or declined else OK


def _delete(registry: RegistryClient, plan: DeletionPlan) -> None:
    steps = [False, True] if plan.permanent else [False]
    for permanent in steps:
        doomed = [each for each in plan.versions if permanent or not each.deleted]
        if not doomed:
            continue
        if plan.whole:
            registry.delete(subject_path(plan.subject), permanent=permanent)
        else:
            for each in doomed:
                registry.delete(version_path(plan.subject, each.version), permanent=permanent)


def _consequences(plan: DeletionPlan) -> Iterator[str]:
    how = "for good" if plan.permanent else "softly"
    yield f"{plan.subject}: {len(plan.versions)} version(s) to delete {how}"
    for each in plan.versions:
        stays = "stays readable" if each.id_stays else "is no longer readable"
        yield f"  version {each.version}: id {each.id} {stays}"
