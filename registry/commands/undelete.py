"""``registrar undelete``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from registry.client.errors import ErrorAnswer, RegistryError
from registry.client.paths import VersionName, scope_path, subject_path, version_path
from registry.client.versions import listed_versions
from registry.command_line.exit_status import OK, Refusal
from registry.command_line.output import json_option, note, print_json, print_lines
from registry.command_line.registry_flags import with_registry
from registry.command_line.verb import Verb

if TYPE_CHECKING:
    from registry.client.client import RegistryClient

_MEMBERS = ("schema", "schemaType", "references", "metadata", "ruleSet")


@click.command(
    "undelete",
    cls=Verb,
    epilog="Exit status: 0 it is back, 1 it is not soft-deleted or the registry refused, 2 no answer.",
)
@click.argument("name", metavar="SUBJECT[:VERSION]")
@click.option("--as-new", is_flag=True, help="Register the schema again as the next version, without a mode.")
@json_option
@with_registry
def undelete(registry: RegistryClient, *, name: str, as_new: bool, as_json: bool) -> int:
    """Bring back a soft-deleted version, or all of a subject, with their numbers and ids.

    A registry gives a version its former number only in the mode IMPORT. The verb sets that mode for
    SUBJECT, registers what was deleted, and sets the former mode again; meanwhile other registrations in
    SUBJECT are refused. With --as-new the schema gets the next number and keeps its id. What is deleted
    permanently cannot come back.
    """
    wanted = VersionName.parse(name)
    known = listed_versions(registry, wanted.subject, deleted=True)
    gone = [number for number, deleted in known.items() if deleted and wanted.version in ("", str(number))]
    if not gone:
        raise Refusal(f"{name} has no version that is soft-deleted")
    lost = [registry.get(version_path(wanted.subject, number), deleted=True) for number in gone]
    if as_new:
        back = [_register(registry, wanted.subject, each) for each in lost]
    else:
        with _importing(registry, wanted.subject):
            back = [_register(registry, wanted.subject, each, as_it_was=True) for each in lost]
    found = [
        {"version": new["version"], "id": new["id"], "formerVersion": old["version"]}
        for old, new in zip(lost, back, strict=True)
    ]
    if as_json:
        print_json({"subject": wanted.subject, "versions": found})
    else:
        print_lines(f"{wanted.subject}: {_told(each)}" for each in found)
    return OK


def _told(found: dict[str, Any]) -> str:
    if found["version"] == found["formerVersion"]:
        return f"version {found['version']} is back, id {found['id']}"
    return f"version {found['formerVersion']} is back as version {found['version']}, id {found['id']}"


def _register(
    registry: RegistryClient, subject: str, version: dict[str, Any], *, as_it_was: bool = False
) -> dict[str, Any]:
    body = {name: version[name] for name in _MEMBERS if version.get(name)}
    exact = {"version": version["version"], "id": version["id"]} if as_it_was else {}
    registry.post(f"{subject_path(subject)}/versions", {**body, **exact})
    found: dict[str, Any] = registry.post(subject_path(subject), body)
    return found


@contextmanager
def _importing(registry: RegistryClient, subject: str) -> Iterator[None]:
    """Set the mode IMPORT of a subject, and afterwards its former one."""
    path = scope_path("mode", subject)
    try:
        former: str | None = registry.get(path)["mode"]
    except ErrorAnswer as error:
        if error.status != 404:
            raise
        former = None
    if former == "IMPORT":
        yield
        return
    registry.put(path, {"mode": "IMPORT"}, force=True)
    try:
        yield
    finally:
        try:
            if former is None:
                registry.delete(path)
            else:
                registry.put(path, {"mode": former}, force=True)
        except RegistryError:
            note(
                f"the mode of {subject} is still IMPORT: set it with registrar mode {_undo(subject, former)}"
            )
            raise


def _undo(subject: str, former: str | None) -> str:
    return f"delete {subject}" if former is None else f"set {former} {subject}"
