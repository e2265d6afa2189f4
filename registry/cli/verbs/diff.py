"""``registrar diff``."""

from __future__ import annotations

import difflib
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from registry.cli.client.resources import (
    LATEST,
    ErrorAnswer,
    Explanation,
    FieldCounts,
    Version,
    VersionName,
    version_path,
)
from registry.cli.output import OK, REFUSED, Failure, json_option, note, print_json, print_lines, print_styled
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb

from .schema_files import SchemaFile, is_schema_file, reference_list, type_of

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient

# Members that people read first; the others follow in alphabetical order.
_FIRST = ("$schema", "$id", "type", "title", "name", "namespace", "doc", "description")
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class _Side(NamedTuple):
    """One of the two schemas."""

    name: str
    text: str
    schema_type: str
    references: list[dict[str, Any]]

    def lines(self) -> list[str]:
        """Return the canonical form: members in a fixed order, then the references."""
        refers = [
            f"reference {each['name']} = {each['subject']}:{each['version']}" for each in self.references
        ]
        return [*canonical(self.text).splitlines(), *refers]


@click.command("diff", cls=Verb, epilog="Exit status: 0 the same, 1 different, 2 comparison failed.")
@click.argument("old")
@click.argument("new")
@click.option(
    "--reference",
    "refers",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="A reference of the files; repeatable.",
)
@json_option
@with_registry
def diff(registry: RegistryClient, *, old: str, new: str, refers: tuple[str, ...], as_json: bool) -> int:
    """Compare two schemas and show in which directions they are compatible.

    OLD and NEW are SUBJECT[:VERSION] (default: the latest) or files. Schemas are compared in a canonical
    form, ignoring white space and the order of members.
    """
    sides = [_side(registry, name, refers) for name in (old, new)]
    before, after = sides
    lines = list(
        difflib.unified_diff(before.lines(), after.lines(), before.name, after.name, lineterm="", n=3)
    )
    same = not lines and before.schema_type == after.schema_type
    verdict = None if same else _explain(registry, before, after)
    fields = None if same else _count_fields(registry, before, after)
    if as_json:
        empty: dict[str, Any] = {"levels": None, "changes": None}
        print_json({"same": same, "diff": lines, **(verdict or empty), "fields": fields})
    else:
        _print(lines, verdict, fields, same=same)
    return OK if same else REFUSED


def _side(registry: RegistryClient, name: str, refers: tuple[str, ...]) -> _Side:
    if name == "-" or _is_file(name):
        if os.sep not in name and name != "-" and _has(registry, name):
            text = f"{name} is a file, and also a subject"
            raise Failure(f"{text}: write .{os.sep}{name} for the file, or :.:{name} for the subject")
        file = SchemaFile.read(name)
        return _Side(name, file.text, file.schema_type, reference_list(refers))
    wanted = VersionName.parse(name)
    found = _version(registry, wanted)
    shown = str(VersionName(wanted.subject, str(found["version"])))
    return _Side(shown, found["schema"], type_of(found), found.get("references") or [])


def _is_file(name: str) -> bool:
    """Return true for a file that can be a schema."""
    return is_schema_file(name) and os.path.isfile(name)  # noqa: PTH113 - pathlib raises


def _version(registry: RegistryClient, wanted: VersionName) -> dict[str, Any]:
    path = version_path(wanted.subject, wanted.version or LATEST)
    # Both sides may lie in contexts of their own, so what they refer to is named with its context.
    how = {"deleted": bool(wanted.version), "referenceFormat": "qualified"}
    found: dict[str, Any] = registry.get(path, Version, **how)
    return found


def _has(registry: RegistryClient, name: str) -> bool:
    try:
        _version(registry, VersionName.parse(name))
    except ErrorAnswer as error:
        if error.is_verdict:
            return False
        raise
    return True


def canonical(text: str) -> str:
    """Return a schema's text in one form for all spellings of the same JSON; other languages only trimmed."""
    try:
        return json.dumps(_sort_members(json.loads(text)), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _sort_members(value: Any) -> Any:
    if isinstance(value, list):
        return [_sort_members(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = [*(name for name in _FIRST if name in value), *sorted(value.keys() - {*_FIRST})]
    return {name: _sort_members(value[name]) for name in names}


def _explain(registry: RegistryClient, old: _Side, new: _Side) -> dict[str, Any] | None:
    """Return the result of each level and every change; ``None`` if the registry compares no two schemas."""
    if old.schema_type != new.schema_type:
        types = f"{old.name} is {old.schema_type}, {new.name} is {new.schema_type}"
        note(f"{types}: no compatibility between types")
        return None
    body = {
        "schemaType": old.schema_type,
        "old": {"schema": old.text, "references": old.references},
        "new": {"schema": new.text, "references": new.references},
    }
    try:
        found = registry.post("/compatibility/explain", body, Explanation)
    except ErrorAnswer as error:
        if not error.is_unknown_resource:
            raise
        note(f"{registry.url} does not explain compatibility; only Registrar does")
        return None
    return {"levels": found["levels"], "changes": found["changes"]}


def _count_fields(registry: RegistryClient, old: _Side, new: _Side) -> FieldCounts | None:
    """Return how many fields differ; ``None`` if the registry does not compare them."""
    sides = {"old": old, "new": new}
    body = {name: {"schemaType": each.schema_type, "schema": each.text} for name, each in sides.items()}
    try:
        found: FieldCounts = registry.post("/schemas/differences", body, FieldCounts)
    except ErrorAnswer as error:
        if error.is_verdict or error.is_unknown_resource:
            return None
        raise
    return {"added": found["added"], "removed": found["removed"], "changed": found["changed"]}


def _print(
    lines: list[str], verdict: dict[str, Any] | None, fields: FieldCounts | None, *, same: bool
) -> None:
    if same:
        print("the same")
        return
    for line in lines:
        print_styled(line, _STYLES.get(line[0], ""))
    if fields is not None:
        print_lines(["", "fields: " + ", ".join(f"{count} {what}" for what, count in fields.items())])
    if verdict is None:
        return
    print()
    for level, result in verdict["levels"].items():
        word, style = ("compatible", "green") if result["compatible"] else ("incompatible", "bold red")
        print_styled(f"{level:<20} {word}", style)
    for change in verdict["changes"]:
        if not change["compatible"]:
            print_lines([f"- {change['type']} at {change['path'] or '/'} ({change['direction']})"])
            if change.get("fix"):
                print_lines([f"  fix: {change['fix']}"])
