"""``registrar apply``, ``download``, ``upload`` and ``promote``: folders and registries made alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.cli.output import OK, Failure, json_option, note, print_json, print_lines, progress
from registry.cli.registry_flags import report_errors, with_connection, with_registry
from registry.cli.verb import Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.client.connect import Connection
    from registry.cli.folder.contents import Contents
    from registry.cli.promotion.reading import Progress
    from registry.domain.subject_patterns import Pattern

_STATUS = "Exit status: 0 done or nothing to do, 1 refused, 2 incomplete: run it again."
_DRIFT_STATUS = (
    "Exit status: 0 done or nothing to do, 1 refused, 2 incomplete: run it again, 3 changes to make."
)
_dry_run = click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
_exit_code = click.option(
    "--exit-code", is_flag=True, help="With --dry-run, exit with status 3 if there are changes to make."
)
_yes = click.option("--yes", is_flag=True, help="Do not ask before deleting.")
_keep_ids = click.option(
    "--keep-ids", is_flag=True, help="Import versions with their ids and numbers, in mode IMPORT."
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


@click.command("apply", cls=Verb, epilog=_DRIFT_STATUS)
@_folder
@click.option("--prune", is_flag=True, help="Delete subjects that the manifest covers but the folder lacks.")
@_dry_run
@_exit_code
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
    exit_code: bool,
    yes: bool,
    keep_ids: bool,
    as_json: bool,
) -> int:
    """Sync a registry to a folder of schemas.

    Prints the plan first, and writes nothing if the registry would refuse a step. If interrupted, run it
    again.
    """
    from .folder_source import report_folder_errors, whole  # noqa: PLC0415
    from .plans import PlanOptions, sync_registry  # noqa: PLC0415 - the help needs none of it

    if exit_code and not dry_run:
        raise click.UsageError("--exit-code belongs to --dry-run", click.get_current_context())
    with report_folder_errors():
        found = whole(folder)
        if prune and not found.manifest.owned:
            advice = 'add a line as subjects = ["orders-*"] to registrar.toml'
            raise Failure(f"--prune needs to know what {folder} owns: {advice}")
        about = found.manifest.owned
        options = PlanOptions(dry_run, yes, keep_ids, as_json, exit_code)
        return sync_registry(client, found.contents, options, owned=about if prune else (), about=about)


@click.command("upload", cls=Verb, epilog=_STATUS)
@_folder
@_dry_run
@_keep_ids
@json_option
@with_registry
def upload(client: RegistryClient, *, folder: Path, dry_run: bool, keep_ids: bool, as_json: bool) -> int:
    """Register the schemas of a folder or an exported snapshot.

    DIR comes from registrar download or registrar snapshot export. Nothing is deleted, except, with
    --keep-ids, versions marked as deleted in DIR.
    """
    from .folder_source import report_folder_errors, whole  # noqa: PLC0415
    from .plans import PlanOptions, sync_registry  # noqa: PLC0415 - the help needs none of it

    with report_folder_errors():
        found = whole(folder)
        options = PlanOptions(dry_run, True, keep_ids, as_json)
        return sync_registry(client, found.contents, options, about=found.manifest.owned)


@click.command("promote", cls=Verb, epilog=_STATUS)
@click.option("--from", "origin", required=True, metavar="URL", help="Registry to read from.")
@click.option("--to", "target", required=True, metavar="URL", help="Registry to write to.")
@_subjects(required=True)
@_versions
@_keep_ids
@click.option("--config", "configs", is_flag=True, help="Also copy configs and modes.")
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
    """Copy schemas and their references from one registry to another.

    Prints the plan first, and writes nothing if the target would refuse a schema or an id is taken there.
    Credentials: REGISTRAR_USER_FROM, REGISTRAR_USER_TO or REGISTRAR_TOKEN_…, or ~/.netrc.
    """
    from registry.cli.client.addresses import FROM, TO  # noqa: PLC0415 - the help needs none of it

    from .folder_source import report_folder_errors  # noqa: PLC0415
    from .plans import PlanOptions, sync_registry  # noqa: PLC0415

    with report_errors(), report_folder_errors():
        with connection.open(os.environ, origin, FROM) as client, progress(as_json=as_json) as steps:
            wanted = _read(client, steps, subjects, which, configs=configs, deleted=keep_ids)
        if not wanted.versions:
            raise Failure(f"{client.url} has no subject that {' or '.join(subjects)} covers")
        with connection.open(os.environ, target, TO) as client:
            options = PlanOptions(dry_run, True, keep_ids, as_json)
            return sync_registry(client, wanted, options, about=_patterns(subjects))


@click.command("download", cls=Verb, epilog="Exit status: 0 written, 2 failed.")
@_folder
@_subjects(required=False)
@_versions
@click.option("--keep-ids", is_flag=True, help="Write all versions, also soft-deleted ones, with their ids.")
@click.option("--prune", is_flag=True, help="Delete other schemas from the folder.")
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
    """Download schemas into a folder that registrar apply can read."""
    from registry.cli.folder.contents import MANIFEST  # noqa: PLC0415 - the help needs none of it
    from registry.cli.folder.trees import on_disk, write  # noqa: PLC0415
    from registry.cli.folder.writing import files_of  # noqa: PLC0415

    from .folder_source import report_folder_errors  # noqa: PLC0415

    with report_folder_errors():
        which = "all" if keep_ids else which
        with progress(as_json=as_json) as steps:
            contents = _read(client, steps, subjects or ("*",), which, configs=True, deleted=keep_ids)
        before = on_disk(folder) if folder.is_dir() else {}
        owned = (subjects or ("*",)) if subjects or MANIFEST not in before else ()
        tree, replaced = files_of(contents, before, owned, keep_ids=keep_ids, whole=prune)
        changed = write(folder, tree, replaced)
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
    client: RegistryClient,
    steps: Progress,
    subjects: Sequence[str],
    which: str,
    *,
    configs: bool,
    deleted: bool,
) -> Contents:
    from registry.cli.promotion.reading import RegistryReader  # noqa: PLC0415 - as above
    from registry.cli.verbs.plans import wanted_of  # noqa: PLC0415

    reader = RegistryReader(client, steps)
    patterns, latest = _patterns(subjects), which == "latest"
    found = wanted_of(reader, patterns, latest=latest, configs=configs, deleted=deleted)
    for text in reader.warnings:
        note(text)
    return found
