"""``registrar undelete``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from registry.cli.client.paths import VersionName, subject_path, version_path
from registry.cli.client.shapes import Found, Version
from registry.cli.client.versions import listed_versions
from registry.cli.exit_status import OK, Refusal
from registry.cli.output import json_option, print_json, print_lines
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.promotion.import_journal import ImportJournal

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
    from .import_modes import open_journal_or_fail, restore_modes  # noqa: PLC0415 - the help needs none of it

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
        raise Refusal(f"{wanted} has no version that is soft-deleted")
    return [registry.get(version_path(wanted.subject, number), Version, deleted=True) for number in gone]


def _describe(found: dict[str, Any]) -> str:
    if found["version"] == found["formerVersion"]:
        return f"version {found['version']} is back, id {found['id']}"
    return f"version {found['formerVersion']} is back as version {found['version']}, id {found['id']}"


def _register(
    registry: RegistryClient, subject: str, version: dict[str, Any], *, as_it_was: bool = False
) -> dict[str, Any]:
    body = {name: version[name] for name in _MEMBERS if version.get(name)}
    exact = {"version": version["version"], "id": version["id"]} if as_it_was else {}
    registry.post(f"{subject_path(subject)}/versions", {**body, **exact})
    found: dict[str, Any] = registry.post(subject_path(subject), body, Found)
    return found


@contextmanager
def _importing(registry: RegistryClient, journal: ImportJournal, subject: str) -> Iterator[None]:
    """Set the mode IMPORT of a subject, and afterwards its former one."""
    from registry.cli.promotion.import_journal import own_mode, set_mode  # noqa: PLC0415 - as above

    from .import_modes import report_open_modes, terminated_like_interrupted  # noqa: PLC0415

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
