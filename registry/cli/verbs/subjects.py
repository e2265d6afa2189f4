"""``registrar subjects``, ``versions``, ``show`` and ``ids list | release``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from registry.cli.client.client import listed_versions
from registry.cli.client.resources import (
    LATEST,
    ErrorAnswer,
    IdUsage,
    Place,
    Schema,
    Timeline,
    TimelineEntry,
    Version,
    VersionName,
    context_prefix,
    quote_segment,
    subject_path,
    version_path,
)
from registry.cli.output import (
    OK,
    Failure,
    json_option,
    note,
    print_json,
    print_lines,
    print_styled,
    print_table,
)
from registry.cli.registry_flags import etag_option, moment_options, moment_params, print_etag, with_registry
from registry.cli.verb import Verb, VerbGroup

from .askers import describe_version_askers
from .schema_files import type_of

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient


@click.command("subjects", cls=Verb, epilog="Exit status: 0 listed, 2 no answer.")
@click.argument("prefix", default="")
@click.option("--deleted", is_flag=True, help="Include subjects whose versions are all soft-deleted.")
@click.option("--level", metavar="LEVEL", help="Only subjects with this compatibility level in force.")
@click.option("--mode", metavar="MODE", help="Only subjects with this mode in force.")
@click.option("--type", "kind", metavar="TYPE", help="Only subjects whose latest version has this type.")
@click.option("--words", metavar="WORDS", help="Only subjects in which all WORDS are found, as by search.")
@click.option("--usage", is_flag=True, help="Show how many versions messages use, by the newest census.")
@click.option("--unused", is_flag=True, help="As --usage, only for subjects with unused versions.")
@click.option("--askers", is_flag=True, help="As --usage, also how many clients ask and when one last asked.")
@json_option
@with_registry
def subjects(
    registry: RegistryClient, *, prefix: str, deleted: bool, level: str | None, mode: str | None,
    kind: str | None, words: str | None, usage: bool, unused: bool, askers: bool, as_json: bool,
) -> int:  # fmt: skip
    """List the subjects of all contexts, or those with PREFIX, one per line.

    The prefix ":.staging:" lists those of a context.
    """
    filters = {"compatibilityLevel": level, "mode": mode, "schemaType": kind, "query": words}
    filtered = any(filters.values())
    if (usage or unused or askers) and filtered:
        raise click.UsageError(
            "--usage, --unused and --askers list subjects by PREFIX only", click.get_current_context()
        )
    if usage or unused or askers:
        from .unused import print_usage  # noqa: PLC0415 - most lists do without

        print_usage(registry, prefix, only_unused=unused, askers=askers, as_json=as_json)
        return OK
    params = {"subjectPrefix": prefix or ":*:", "deleted": deleted}
    if filtered:
        found = _list_filtered(registry, {**params, **filters})
    else:
        found = registry.pages("/subjects", str, **params)
    if as_json:
        print_json(list(found))
    else:
        print_lines(found)
    if registry.warning:
        note(registry.warning)
    return OK


def _list_filtered(registry: RegistryClient, params: dict[str, Any]) -> Iterator[str]:
    """Yield the names of a filtered list, with details: registries that know none ignore filters, too."""
    for each in registry.pages("/subjects", Place | str, detail=True, **params):
        if isinstance(each, str):
            raise Failure(f"{registry.url} does not filter subjects: leave out the filters")
        yield each["subject"]


@click.command("versions", cls=Verb, epilog="Exit status: 0 listed, 1 subject not found, 2 no answer.")
@click.argument("subject")
@click.option("--deleted", is_flag=True, help="Include soft-deleted versions.")
@click.option("--changes", is_flag=True, help="Newest first, with what each changed, when and by whom.")
@moment_options
@json_option
@with_registry
def versions(
    registry: RegistryClient, *, subject: str, deleted: bool, changes: bool, at_offset: int | None,
    at_time: str | None, as_json: bool,
) -> int:  # fmt: skip
    """List the versions of SUBJECT, one per line."""
    moment = moment_params(at_offset, at_time)
    if changes:
        entries = _timeline(registry, subject, deleted=deleted, **moment)
        if as_json:
            print_json(list(entries))
        else:
            print_table(_TIMELINE, map(_timeline_row, entries))
        return OK
    found = listed_versions(registry, subject, deleted=deleted, **moment)
    if as_json:
        print_json([{"version": number, "deleted": gone} for number, gone in found.items()])
    else:
        print_lines(f"{number} (soft-deleted)" if gone else str(number) for number, gone in found.items())
    return OK


def _timeline(
    registry: RegistryClient, subject: str, *, deleted: bool, **moment: Any
) -> Iterator[TimelineEntry]:
    below: int | None = None
    while True:
        where = f"{subject_path(subject)}/timeline"
        try:
            page: Timeline = registry.get(where, Timeline, deleted=deleted, below=below, limit=100, **moment)
        except ErrorAnswer as error:
            if not error.is_unknown_resource:
                raise
            raise Failure(f"{registry.url} does not know --changes; only Registrar does") from None
        yield from page["versions"]
        below = page["next"]
        if below is None:
            return


_TIMELINE = ("version", "registered", "by", "fields", "verdict", "marks")


def _timeline_row(entry: TimelineEntry) -> tuple[str, ...]:
    signs = (("+", entry.get("added")), ("-", entry.get("removed")), ("~", entry.get("changed")))
    fields = " ".join(f"{sign}{count}" for sign, count in signs if count)
    verdicts = {True: "compatible", False: "breaking", None: ""}
    marks = [f"was {entry['previousType']}"] if "previousType" in entry else []
    if entry["deleted"]:
        marks.append(f"deleted by {entry['deletedBy']}" if "deletedBy" in entry else "soft-deleted")
    marks += [f"{entry['rules']} rules"] if entry.get("rules") else []
    marks += entry.get("tags", [])
    return (
        str(entry["version"]),
        _time(entry["ts"]) if "ts" in entry else "",
        entry.get("principal", ""),
        fields or ("+0" if "added" in entry else ""),
        verdicts[entry.get("compatible")],
        ", ".join(marks),
    )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "minutes")[:16]


_STATUS = "Exit status: 0 shown, 1 not found, 2 no answer or wrong usage."


@click.command("show", cls=Verb, epilog=_STATUS)
@click.argument("name", metavar="[SUBJECT[:VERSION]]", default="")
@click.option("--id", "schema_id", type=click.IntRange(0), metavar="ID", help="Show the schema with this id.")
@click.option("--context", default="", metavar="CONTEXT", help="The context of --id [default: .].")
@click.option("--guid", default="", metavar="GUID", help="Show the schema with this guid.")
@click.option("--resolved", is_flag=True, help="Inline the referenced schemas.")
@click.option("--ddl", is_flag=True, help="Show the table that the schema describes, as DDL.")
@click.option("--raw", is_flag=True, help="Print only the text of the schema, unchanged.")
@click.option("--deleted", is_flag=True, help="Include a soft-deleted version.")
@click.option("--askers", is_flag=True, help="Also show which clients have asked for the version.")
@etag_option
@moment_options
@json_option
@with_registry
def show(
    registry: RegistryClient, *, name: str, schema_id: int | None, context: str, guid: str, resolved: bool,
    ddl: bool, raw: bool, deleted: bool, askers: bool, etag: bool, at_offset: int | None,
    at_time: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Show a schema by subject and version (default: the latest), id or guid."""
    if sum((bool(name), schema_id is not None, bool(guid))) != 1:
        raise click.UsageError(
            "name one schema: SUBJECT[:VERSION], --id or --guid", click.get_current_context()
        )
    if context and schema_id is None:
        raise click.UsageError("--context belongs to --id", click.get_current_context())
    if not name and (at_offset is not None or at_time is not None):
        raise click.UsageError(
            "--at-offset and --at-time belong to SUBJECT[:VERSION]", click.get_current_context()
        )
    if ddl and (resolved or not name):
        raise click.UsageError(
            "--ddl belongs to SUBJECT[:VERSION], without --resolved", click.get_current_context()
        )
    if askers and (raw or not name):
        raise click.UsageError(
            "--askers belongs to SUBJECT[:VERSION], without --raw", click.get_current_context()
        )
    path = f"/schemas/ids/{schema_id}" if schema_id is not None else f"/schemas/guids/{quote_segment(guid)}"
    if name:
        wanted = VersionName.parse(name)
        path = version_path(wanted.subject, wanted.version or LATEST)
    if etag:
        return print_etag(registry, path, deleted=deleted)
    scope = context_prefix(context) or None
    moment = moment_params(at_offset, at_time)
    shape = "logical" if ddl else "resolved" if resolved else None
    found = registry.get(
        path, Version if name else Schema, subject=scope, format=shape, deleted=deleted, **moment
    )
    if schema_id is not None:
        found.setdefault("id", schema_id)
    if raw:
        print(found["schema"])
        return OK
    asked = describe_version_askers(registry, found["subject"], found["version"]) if askers else None
    shown = entity(found) | ({} if asked is None else {"askers": asked})
    if as_json:
        print_json(shown)
    else:
        _print_version(shown)
    return OK


def entity(found: dict[str, Any]) -> dict[str, Any]:
    """Return a version or schema with the members that every registry's answers can be given."""
    always = {
        "subject": found.get("subject"),
        "version": found.get("version"),
        "id": found.get("id"),
        "guid": found.get("guid"),
        "schemaType": type_of(found),
        "deleted": bool(found.get("deleted")),
        "references": found.get("references") or [],
        "schema": found["schema"],
    }
    return always | {name: found[name] for name in ("metadata", "ruleSet") if found.get(name)}


def _print_version(found: dict[str, Any]) -> None:
    for line in _head(found):
        print_styled(line, "dim")
    print_lines([readable(found["schema"])])


def _head(found: dict[str, Any]) -> Iterator[str]:
    named = [
        f"{name} {found[name]}" for name in ("subject", "version", "id", "guid") if found[name] is not None
    ]
    yield ", ".join([*named, found["schemaType"], *(["soft-deleted"] if found["deleted"] else [])])
    for each in found["references"]:
        yield f"refers to {each['name']}: {each['subject']}:{each['version']}"
    for name, value in ((found.get("metadata") or {}).get("properties") or {}).items():
        yield f"{name} = {value}"
    if found.get("askers"):
        yield found["askers"]


def readable(text: str) -> str:
    """Return a schema's text indented if it is JSON; other languages have lines already."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text.rstrip("\n")


_IDS = "/admin/ids"
_id = click.IntRange(1, 2**31 - 1)


@click.group(cls=VerbGroup)
def ids() -> None:
    """Show id usage, and release reserved ids that no version has."""


@ids.command("list", cls=Verb, epilog="Exit status: 0 listed, 2 no answer or wrong usage.")
@json_option
@with_registry
def _list(registry: RegistryClient, *, as_json: bool) -> int:
    """List the highest id, the reserved ids and the free ranges of each context."""
    _print_ids([*registry.pages(_IDS, IdUsage)], as_json=as_json)
    return OK


@ids.command("release", cls=Verb, epilog="Exit status: 0 released, 1 refused, 2 no answer or wrong usage.")
@click.option("--context", default=".", metavar="NAME", help="The context [default: the default one].")
@click.option("--from", "first", type=_id, required=True, metavar="ID", help="The first id to release.")
@click.option("--to", "last", type=_id, metavar="ID", help="The last one [default: the highest possible].")
@json_option
@with_registry
def _release(registry: RegistryClient, *, context: str, first: int, last: int | None, as_json: bool) -> int:
    """Release reserved ids, for example those below one that was imported by mistake.

    Refused while a version has one of them. New schemas can then get ids of deleted versions: release only
    ids that no message refers to any more.
    """
    body = {"context": context, "from": first, "to": last}
    found = registry.post(f"{_IDS}/release", body, IdUsage)
    _print_ids([found], as_json=as_json)
    return OK


def _print_ids(found: list[IdUsage], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    columns = ("context", "highest", "reserved", "used", "free ranges")
    rows = [
        (each["context"], each["highest"], each["reserved"], f"{each['used']:.2%}", _ranges(each))
        for each in found
    ]
    print_table(columns, rows, right=("highest", "reserved", "used"))


def _ranges(found: IdUsage) -> str:
    return ", ".join(f"{each['from']}-{each['to']}" for each in found["free"])
