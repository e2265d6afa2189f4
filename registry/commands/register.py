"""``registrar register``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from registry.client.errors import ErrorAnswer
from registry.client.paths import subject_path
from registry.client.shapes import Found, Registered
from registry.command_line.exit_status import OK, Failure
from registry.command_line.output import json_option, print_json, print_lines
from registry.command_line.registry_flags import with_registry
from registry.command_line.schema_files import TYPES, SchemaFile, read_json, reference_list
from registry.command_line.verb import Verb

if TYPE_CHECKING:
    from registry.client.client import RegistryClient

_STATUS = (
    "Exit status: 0 registered, or it was already; 1 refused, such as incompatible or invalid; "
    "2 no answer or wrong usage."
)


@click.command("register", cls=Verb, epilog=_STATUS)
@click.argument("subject")
@click.argument("file")
@click.option(
    "--type",
    "schema_type",
    type=click.Choice(list(TYPES.values()), case_sensitive=False),
    help="Type of the schema [default: by the name of FILE: .avsc, .json, .proto].",
)
@click.option(
    "--reference", "refers", multiple=True, metavar="NAME=SUBJECT:VERSION", help="A reference; repeatable."
)
@click.option("--references", default="", metavar="FILE", help="JSON array of references, as in the API.")
@click.option("--normalize", is_flag=True, help="Normalise the schema.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="Metadata; repeatable.")
@click.option("--tag", "tags", multiple=True, metavar="PATH=TAG", help="A tag in the metadata; repeatable.")
@click.option("--rule-set", default="", metavar="FILE", help="JSON object with the rule set, as in the API.")
@json_option
@with_registry
def register(
    registry: RegistryClient, *, subject: str, file: str, schema_type: str | None, normalize: bool,
    as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Register the schema in FILE (-: standard input) as a version of SUBJECT."""
    schema = SchemaFile.read(file, schema_type and schema_type.upper())
    body = {"schema": schema.text, "schemaType": schema.schema_type, **_more(**given)}
    path = subject_path(subject)
    known = _lookup(registry, path, body, normalize=normalize)
    if known is None:
        answer = registry.post(f"{path}/versions", body, Registered, normalize=normalize)
        # Older registries answer only the id.
        if answer.get("version") is None:
            answer = registry.post(path, body, Found, normalize=normalize)
    else:
        answer = known
    found = {
        "subject": subject,
        "version": answer["version"],
        "id": answer["id"],
        "guid": answer.get("guid"),
        "schemaType": schema.schema_type,
        "registered": known is None,
    }
    if as_json:
        print_json(found)
    else:
        word = "registered as" if known is None else "is already"
        print_lines([f"{subject} {word} version {found['version']}, id {found['id']}"])
    return OK


def _lookup(
    registry: RegistryClient, path: str, body: dict[str, Any], *, normalize: bool
) -> dict[str, Any] | None:
    """Return the version that has this schema; ``None`` if there is none, or this may not be asked."""
    try:
        found: dict[str, Any] = registry.post(path, body, Found, normalize=normalize)
    except ErrorAnswer as error:
        if error.status in (403, 404):
            return None
        raise
    return found


def _more(
    refers: tuple[str, ...],
    references: str,
    properties: tuple[str, ...],
    tags: tuple[str, ...],
    rule_set: str,
) -> dict[str, Any]:
    """Return the members of the request that are given."""
    metadata: dict[str, Any] = {}
    for word in properties:
        name, value = _pair(word, "--property NAME=VALUE")
        metadata.setdefault("properties", {})[name] = value
    for word in tags:
        name, value = _pair(word, "--tag PATH=TAG")
        metadata.setdefault("tags", {}).setdefault(name, []).append(value)
    found = {
        "references": reference_list(refers, references),
        "metadata": metadata,
        "ruleSet": read_json(rule_set, dict) if rule_set else None,
    }
    return {name: value for name, value in found.items() if value}


def _pair(word: str, usage: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not name or not equals:
        raise Failure(f"{word!r} is not a pair: write {usage}")
    return name, value
