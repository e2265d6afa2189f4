"""``registrar register``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from registry.cli.client.resources import ErrorAnswer, Found, Registered, RegistryError, subject_path
from registry.cli.output import OK, REFUSED, Failure, json_option, note, print_json, print_lines
from registry.cli.registry_flags import if_match_option, with_registry
from registry.cli.verb import Verb

from .schema_files import SchemaFile, SchemaType, read_json, reference_list, referenced_schemas

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.folder.steps import Plan

_STATUS = (
    "Exit status: 0 registered, already registered, or acceptable with --dry-run; 1 refused, for "
    "example as incompatible or invalid; 2 no answer or wrong usage."
)


@click.command("register", cls=Verb, epilog=_STATUS)
@click.argument("subject")
@click.argument("file")
@click.option(
    "--type",
    "schema_type",
    type=SchemaType(),
    help="Type of the schema, such as JSON [default: by the name of FILE].",
)
@click.option(
    "--reference", "refers", multiple=True, metavar="NAME=SUBJECT:VERSION", help="A reference; repeatable."
)
@click.option("--references", default="", metavar="FILE", help="JSON array of references, as in the API.")
@click.option("--normalize", is_flag=True, help="Normalize the schema.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="Metadata; repeatable.")
@click.option("--tag", "tags", multiple=True, metavar="PATH=TAG", help="A tag in the metadata; repeatable.")
@click.option("--rule-set", default="", metavar="FILE", help="JSON object with the rule set, as in the API.")
@click.option("--ddl", is_flag=True, help="FILE is DDL: register what it describes as --type.")
@if_match_option
@click.option("--dry-run", is_flag=True, help="Only check the schema, as registrar check does.")
@json_option
@with_registry
def register(
    registry: RegistryClient, *, subject: str, file: str, schema_type: str | None, normalize: bool,
    ddl: bool, if_match: str, dry_run: bool, as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Register the schema in FILE (-: standard input) as a version of SUBJECT.

    If refused, prints the report of "registrar check", with a fix for each problem.
    """
    from registry.cli.folder.report import verdict_json, verdict_lines  # noqa: PLC0415 - the help needs none of it

    if ddl and schema_type is None:
        raise click.UsageError("--ddl needs --type", click.get_current_context())
    schema, more = SchemaFile.read(file, schema_type), _more(**given)
    if ddl:
        referenced = referenced_schemas(registry, subject, more.get("references", ()))
        schema = schema.from_ddl(subject, referenced)
    body = {"schema": schema.text, "schemaType": schema.schema_type, **more}
    path = subject_path(subject)
    known: dict[str, Any] | None = None
    report: Plan | None = None
    answer: dict[str, Any] = {}
    try:
        known = _lookup(registry, path, body, normalize=normalize)
        if known is not None and not (if_match and not dry_run):  # the registry decides on a condition
            answer = known
        elif dry_run:
            report = _verdict(registry, subject, body, file)
        else:
            answer = _post(registry, path, body, normalize=normalize, if_match=if_match)
    except ErrorAnswer as error:
        report = _explain_refusal(registry, subject, body, file, error)
    found = {
        "subject": subject,
        "version": answer.get("version"),
        "id": answer.get("id"),
        "guid": answer.get("guid"),
        "schemaType": schema.schema_type,
        "registered": known is None and report is None,
        "report": None if report is None else verdict_json(report),
    }
    if as_json:
        print_json(found)
    elif report is not None:
        print_lines(verdict_lines(report))
    else:
        word = "registered as" if known is None else "is already"
        print_lines([f"{subject} {word} version {found['version']}, id {found['id']}"])
    return OK if report is None or report.possible else REFUSED


def _post(
    registry: RegistryClient, path: str, body: dict[str, Any], *, normalize: bool, if_match: str
) -> dict[str, Any]:
    answer: dict[str, Any] = registry.post(
        f"{path}/versions", body, Registered, normalize=normalize, if_match=if_match
    )
    # Older registries answer only the id.
    if answer.get("version") is None:
        answer = registry.post(path, body, Found, normalize=normalize)
    return answer


def _explain_refusal(
    registry: RegistryClient, subject: str, body: dict[str, Any], file: str, error: ErrorAnswer
) -> Plan:
    """Return the verdict of ``registrar check`` on what the registry refused.

    Raises the registry's error if the verdict does not explain it.
    """
    if not error.is_verdict or error.status == 412:
        raise error
    try:
        found = _verdict(registry, subject, body, file)
    except (RegistryError, Failure):  # such as one who may register but not read
        raise error from None
    if found.possible:  # refused for another reason, such as a policy
        raise error
    note(f"{subject}: the registry refused the schema ({error.code})")
    return found


def _verdict(registry: RegistryClient, subject: str, body: dict[str, Any], file: str) -> Plan:
    """Return the verdict on a registration, made of what the registry holds; nothing is written."""
    import msgspec  # noqa: PLC0415 - the help needs none of it

    from registry.cli.folder.checking import check  # noqa: PLC0415
    from registry.cli.folder.contents import Contents, FolderError, Version  # noqa: PLC0415
    from registry.cli.folder.memory_registry import MemoryRegistry  # noqa: PLC0415
    from registry.cli.promotion.reading import RegistryReader  # noqa: PLC0415
    from registry.cli.verbs.plans import present_for  # noqa: PLC0415
    from registry.domain.model import Reference, Subject, metadata, rule_set  # noqa: PLC0415

    try:
        version = Version(
            body["schema"],
            body["schemaType"],
            references=msgspec.convert(body.get("references", ()), tuple[Reference, ...]),
            metadata=metadata(body["metadata"]) if "metadata" in body else None,
            rule_set=rule_set(body["ruleSet"]) if "ruleSet" in body else None,
            origin=file,
        )
    except msgspec.ValidationError as error:
        raise Failure(f"the registration does not have the API's format: {error}") from None
    name, memory = Subject.parse(subject).qualified, MemoryRegistry()
    try:
        present = present_for(RegistryReader(registry), Contents({name: (version,)}))
        # A registration follows an alias, which a folder must not.
        if alias := present.configs.get(name, {}).get("alias"):
            name = Subject.within(Subject.parse(name).context, alias).qualified
            present = present_for(RegistryReader(registry), Contents({name: (version,)}))
        memory.load(present)
        return check(Contents({name: (version,)}), memory)
    except FolderError as error:
        raise Failure(str(error)) from None


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
