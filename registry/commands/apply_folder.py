"""``registrar apply``, ``download``, ``upload`` and ``promote``: folders and registries made alike."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.command_line.exit_status import FAILED, OK, REFUSED, Failure
from registry.command_line.output import json_option, note, print_json, print_lines
from registry.command_line.registry_flags import errors_told, with_connection, with_registry
from registry.command_line.verb import Verb

if TYPE_CHECKING:
    from registry.client.client import RegistryClient
    from registry.client.connect import Connection
    from registry.domain.subject_patterns import Pattern
    from registry.folder.contents import Contents
    from registry.folder.steps import Plan

_STATUS = "Exit status: 0 done or nothing to do, 1 refused, 2 the rest is unknown: run it again."
_dry_run = click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
_yes = click.option("--yes", is_flag=True, help="Do not ask before something is deleted.")
_keep_ids = click.option(
    "--keep-ids", is_flag=True, help="Import versions with their ids and numbers (mode IMPORT meanwhile)."
)
_folder = click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
_versions = click.option(
    "--versions",
    "which",
    type=click.Choice(["latest", "all"]),
    default="latest",
    help="The latest version of each subject (the default), or all.",
)


def _subjects(*, required: bool) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return click.option(
        "--subjects",
        multiple=True,
        required=required,
        metavar="PATTERN",
        help='A subject, a prefix ("orders-*"), a context (":.staging:*"), or "*"; repeatable.',
    )


@click.command("apply", cls=Verb, epilog=_STATUS)
@_folder
@click.option("--prune", is_flag=True, help="Delete subjects that the folder owns (its manifest) but lacks.")
@_dry_run
@_yes
@_keep_ids
@json_option
@with_registry
def apply_folder(
    client: RegistryClient,
    *,
    folder: Path,
    prune: bool,
    dry_run: bool,
    yes: bool,
    keep_ids: bool,
    as_json: bool,
) -> int:
    """Make a registry hold what a folder of schemas holds.

    The plan is printed first. Nothing is written if a step would be refused. If it is interrupted, run it
    again.
    """
    from .folder_source import folders_told, source  # noqa: PLC0415 - the help needs none of it

    with folders_told():
        found = source(folder)
        if prune and not found.manifest.owned:
            advice = 'add a line as subjects = ["orders-*"] to registrar.toml'
            raise Failure(f"--prune needs to know what {folder} owns: {advice}")
        owned = found.manifest.owned if prune else ()
        planned = _plan(client, found.contents, owned, keep_ids=keep_ids)
    return _carry_out(client, planned, dry_run=dry_run, yes=yes, as_json=as_json)


@click.command("upload", cls=Verb, epilog=_STATUS)
@_folder
@_dry_run
@_keep_ids
@json_option
@with_registry
def upload(client: RegistryClient, *, folder: Path, dry_run: bool, keep_ids: bool, as_json: bool) -> int:
    """Register what a folder or an exported snapshot holds.

    DIR was written by registrar download, or by registrar snapshot export. Nothing is deleted, except, with
    --keep-ids, versions that are marked as deleted there.
    """
    from .folder_source import folders_told, source  # noqa: PLC0415 - the help needs none of it

    with folders_told():
        planned = _plan(client, source(folder).contents, (), keep_ids=keep_ids)
    return _carry_out(client, planned, dry_run=dry_run, yes=True, as_json=as_json)


@click.command("promote", cls=Verb, epilog=_STATUS)
@click.option("--from", "origin", required=True, metavar="URL", help="Registry to read from.")
@click.option("--to", "target", required=True, metavar="URL", help="Registry to write to.")
@_subjects(required=True)
@_versions
@_keep_ids
@click.option("--config", "configs", is_flag=True, help="Copy levels, other configs and modes, too.")
@_dry_run
@json_option
@with_connection(url=False)
def promote(
    connection: Connection,
    *,
    origin: str,
    target: str,
    subjects: tuple[str, ...],
    which: str,
    keep_ids: bool,
    configs: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Register schemas of one registry in another, with what they refer to.

    The plan is printed first. Nothing is written if the target would refuse a schema, or if an id is taken
    there.
    """
    from .folder_source import folders_told  # noqa: PLC0415 - the help needs none of it

    with errors_told(), folders_told():
        with connection.open(os.environ, origin) as client:
            wanted = _read(client, _patterns(subjects), which, configs=configs, deleted=keep_ids)
        if not wanted.versions:
            raise Failure(f"{client.url} has no subject that {' or '.join(subjects)} covers")
        with connection.open(os.environ, target) as client:
            planned = _plan(client, wanted, (), keep_ids=keep_ids)
            return _carry_out(client, planned, dry_run=dry_run, yes=True, as_json=as_json)


@click.command("download", cls=Verb, epilog="Exit status: 0 written, 2 failed.")
@_folder
@_subjects(required=False)
@_versions
@click.option("--keep-ids", is_flag=True, help="Write all versions, also soft-deleted ones, with their ids.")
@click.option("--prune", is_flag=True, help="Remove other schemas from the folder.")
@json_option
@with_registry
def download(
    client: RegistryClient,
    *,
    folder: Path,
    subjects: tuple[str, ...],
    which: str,
    keep_ids: bool,
    prune: bool,
    as_json: bool,
) -> int:
    """Write schemas of a registry into a folder, as registrar apply reads it."""
    from registry.folder.contents import MANIFEST  # noqa: PLC0415 - the help needs none of it
    from registry.folder.trees import on_disk, write  # noqa: PLC0415
    from registry.folder.writing import keep_manifest, tree_of  # noqa: PLC0415

    from .folder_source import folders_told  # noqa: PLC0415

    patterns = _patterns(subjects or ("*",))
    with folders_told():
        which = "all" if keep_ids else which
        contents = _read(client, patterns, which, configs=True, deleted=keep_ids)
        before = on_disk(folder).get(MANIFEST, b"") if folder.is_dir() else b""
        owned = [each.text for each in patterns] if subjects or not before else []
        tree = tree_of(contents, owned, keep_ids=keep_ids)
        keep_manifest(tree, contents, before, whole=prune)
        changed = write(folder, tree, prune=prune)
    versions = sum(map(len, contents.versions.values()))
    if as_json:
        print_json({"subjects": len(contents.versions), "versions": versions, "changed": changed})
    else:
        count = f"{versions} versions of {len(contents.versions)} subjects"
        print_lines([f"{count}; files changed: {len(changed)}"])
    return OK


def _patterns(texts: Sequence[str]) -> list[Pattern]:
    from registry.domain.subject_patterns import parse_pattern  # noqa: PLC0415 - as above

    try:
        return [parse_pattern(each) for each in texts]
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _read(
    client: RegistryClient, patterns: Sequence[Pattern], which: str, *, configs: bool, deleted: bool
) -> Contents:
    from registry.promotion.reading import RegistryReader, wanted_of  # noqa: PLC0415 - as above

    reader = RegistryReader(client)
    return wanted_of(reader, patterns, latest=which == "latest", configs=configs, deleted=deleted)


def _plan(client: RegistryClient, wanted: Contents, owned: Sequence[Pattern], *, keep_ids: bool) -> Plan:
    from registry.folder.contents import FolderError  # noqa: PLC0415 - as above
    from registry.folder.plan import plan  # noqa: PLC0415
    from registry.promotion.reading import RegistryReader, present_for  # noqa: PLC0415

    unknown = [subject for subject, each in wanted if each.schema_id < 0 or not each.number]
    if keep_ids and unknown:
        raise FolderError(f"{unknown[0]} has no id to keep: download the folder with --keep-ids")
    present = present_for(RegistryReader(client), wanted, owned, keep_ids=keep_ids)
    return plan(wanted, present, prune=owned, keep_ids=keep_ids)


def _carry_out(client: RegistryClient, planned: Plan, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Print a plan, take its steps, and return the exit status."""
    from registry.folder import report  # noqa: PLC0415 - as above

    if not as_json:
        print_lines(report.plan_lines(planned))
    done, status = 0, OK
    if not planned.possible:
        note("nothing was changed, because the registry would refuse a part of it: see the lines with !")
        status = REFUSED
    elif not dry_run and planned.steps:
        if not yes and any(step.sign == "-" for step in planned.steps):
            _ask(as_json=as_json)
        done, status = _take(client, planned)
    if as_json:
        print_json(report.plan_json(planned, done))
    elif status == OK:
        print_lines([f"{len(planned.steps)} steps{' to take' if dry_run else ' taken'}"])
    return status


def _ask(*, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise Failure("this deletes subjects: confirm it by --yes")
    click.confirm("Delete what is marked with -?", abort=True, err=True)


def _take(client: RegistryClient, planned: Plan) -> tuple[int, int]:
    """Take the steps; return the number of steps that were taken and the exit status."""
    from registry.client.errors import ErrorAnswer, RegistryError  # noqa: PLC0415 - as above
    from registry.promotion.performing import PlanOutdated, perform  # noqa: PLC0415

    done = 0
    try:
        for _ in perform(client, planned.steps):
            done += 1
    except (RegistryError, PlanOutdated) as error:
        note(f"{planned.steps[done].shows}: {error}")
        count = f"{done} of {len(planned.steps)} steps were taken"
        note(f"{count}; these remain, and the command resumes if it is run again:")
        for step in planned.steps[done:]:
            note(f"  {step.sign} {step.shows}")
        refused = isinstance(error, ErrorAnswer) and error.is_verdict
        return done, REFUSED if refused else FAILED
    return done, OK
