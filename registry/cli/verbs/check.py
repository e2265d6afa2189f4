"""``registrar check`` and ``registrar lint``: verdicts on schema files before anything is registered."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.base.config.loading import Loaded
from registry.cli.output import (
    FAILED,
    OK,
    REFUSED,
    EndedVerb,
    Failure,
    json_option,
    note,
    print_json,
    print_lines,
    progress,
)
from registry.cli.registry_flags import report_errors, with_connection
from registry.cli.setting_flags import with_settings
from registry.cli.verb import SectionOption, Verb
from registry.domain.target_names import TARGET_NAMES

if TYPE_CHECKING:
    from registry.cli.client.connect import Connection
    from registry.cli.folder.checking import LintRules
    from registry.cli.folder.manifest import Manifest
    from registry.cli.folder.steps import Plan

_LEVELS = (
    "NONE",
    *(f"{way}{many}" for way in ("BACKWARD", "FORWARD", "FULL") for many in ("", "_TRANSITIVE")),
)
_format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github"]),
    default="text",
    help="text (the default), or github for annotations in GitHub Actions.",
)
_SETTINGS = (
    "kafka",
    *(f"snapshots_spark_{each}" for each in ("master", "start_timeout_s", "packages", "conf")),
)
_of_messages = partial(click.option, cls=SectionOption, section="Messages of a topic")
_path_argument = click.argument("path", type=click.Path(path_type=Path), default=Path())


@click.command(
    "check", cls=Verb, epilog="Exit status: 0 all accepted, 1 some refused, 2 no verdict possible."
)
@_path_argument
@click.option(
    "--against",
    multiple=True,
    metavar="WHERE",
    help="Compare with git:REVISION, a folder, a file, or the URL of a registry. For transitive levels give "
    "several, the oldest first.",
)
@click.option(
    "--offline", is_flag=True, help="Do not contact a registry: compare the versions in PATH with each other."
)
@click.option(
    "--level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    help="Compatibility level, instead of the registry's or the manifest's [default without them: BACKWARD].",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    type=click.Choice(TARGET_NAMES, case_sensitive=False),
    metavar="TARGET",
    help=f"Also check that tables of TARGET can follow: {', '.join(TARGET_NAMES)}. May be repeated.",
)
@click.option("--subject", default="", metavar="NAME", help="Subject of PATH if it is a file.")
@click.option(
    "--topic",
    default="",
    metavar="TOPIC",
    help="As --subject TOPIC-value --used; with --keys, as --subject TOPIC-key --used.",
)
@click.option(
    "--used", is_flag=True, help="Compare with the versions that messages use, by the newest census."
)
@_of_messages(
    "--decode",
    is_flag=True,
    help="Also read the messages of --topic, of --kafka, with the new schema.",
)
@_of_messages("--keys", is_flag=True, help="The schema is that of the keys of --topic.")
@_of_messages("--sample", type=click.IntRange(1), metavar="N", help="Read about N messages [default: all].")
@click.option(
    "--no-prune", is_flag=True, help="Ignore subjects that the manifest of PATH covers but PATH lacks."
)
@click.option("--details", is_flag=True, help="Also print unchanged versions and compatible changes.")
@_format_option
@json_option
@with_settings("security", also=_SETTINGS, refused=FAILED)
@with_connection()
def check(
    connection: Connection,
    loaded: Loaded,
    *,
    path: Path,
    against: tuple[str, ...],
    offline: bool,
    level: str | None,
    targets: tuple[str, ...],
    subject: str,
    topic: str,
    used: bool,
    decode: bool,
    keys: bool,
    sample: int | None,
    no_prune: bool,
    details: bool,
    form: str,
    as_json: bool,
) -> int:
    """Check whether a registry would accept schema files.

    PATH is a folder of schemas (see docs/schemas-in-git.md), a part of one, or a file. They are compared with
    the registry unless --against or --offline is given. Subjects that the manifest covers but the folder
    lacks are checked as deletions, as by "registrar apply --prune".
    """
    from registry.cli.folder import report  # noqa: PLC0415 - the help needs none of it

    from .folder_source import folder_of, report_folder_errors  # noqa: PLC0415 - as above

    side = "key" if keys else "value"
    used, subject = used or bool(topic), subject or (f"{topic}-{side}" if topic else "")
    if used and (offline or against):
        raise click.UsageError("--used and --topic need a registry, without --against and --offline")
    if (decode or keys) and not topic:
        raise click.UsageError("--decode and --keys need a --topic")
    if sample and not decode:
        raise click.UsageError("--sample needs --decode")
    with report_errors(), report_folder_errors():
        how: dict[str, Any] = {"targets": targets, "offline": offline, "prune": not no_prune, "used": used}
        try:
            found = _run_check(connection, path, against, level, subject, **how)
        except EndedVerb as error:
            if not decode:
                raise
            # Messages say more than a census, which there may not be.
            note(f"the versions in use were not compared: {error.message}")
            found = None
    if found is not None and not as_json:
        if form == "github":
            print_lines(report.plan_annotations(found, folder_of(path)))
        else:
            print_lines(report.verdict_lines(found, details=details))
    verdict = {} if found is None else report.verdict_json(found)
    status = OK if found is None or found.possible else REFUSED
    if decode:
        place = path, subject, topic, side, sample or 0
        decoded = _decode(connection, loaded, place, verdict, as_json=as_json)
        status = REFUSED if REFUSED in (status, decoded) else decoded
    if as_json:
        print_json(verdict)
    return status


def _decode(
    connection: Connection,
    loaded: Loaded,
    place: tuple[Path, str, str, str, int],
    verdict: dict[str, Any],
    *,
    as_json: bool,
) -> int:
    """Read the topic and print how many messages fail; return the exit status. Extends ``verdict``."""
    from .check_topic import (  # noqa: PLC0415 - as above
        Wanted,
        exit_status,
        print_verdict,
        read_topic,
        verdict_members,
    )
    from .folder_source import report_folder_errors  # noqa: PLC0415 - as above

    wanted = Wanted(*place)
    with report_errors(), report_folder_errors(), progress(as_json=as_json) as steps:
        found = read_topic(connection, loaded.settings, wanted, steps)
    status = exit_status(found)
    verdict["accepted"] = status == OK and verdict.get("accepted", True)
    verdict["decoded"] = verdict_members(found, wanted)
    if not as_json:
        print_verdict(found, wanted)
    return status


def _run_check(
    connection: Connection,
    path: Path,
    against: tuple[str, ...],
    level: str | None,
    subject: str,
    *,
    targets: tuple[str, ...],
    offline: bool,
    prune: bool,
    used: bool,
) -> Plan:
    from registry.cli.folder import checking  # noqa: PLC0415 - as above
    from registry.cli.folder.memory_registry import MemoryRegistry  # noqa: PLC0415
    from registry.cli.folder.plan import subjects_to_prune  # noqa: PLC0415
    from registry.cli.promotion.reading import RegistryReader  # noqa: PLC0415
    from registry.cli.verbs.plans import present_for  # noqa: PLC0415

    from .folder_source import (  # noqa: PLC0415
        earlier,
        is_url,
        source,
    )

    found = source(path, subject)
    wanted = found.contents
    owned = found.manifest.owned if prune and not found.part else ()
    if not wanted.versions and not against:
        raise Failure(f"there is no schema in {path}: files must end in .avsc, .json or .proto")
    urls = [each for each in against if is_url(each)]
    if len(against) > 1 and urls:
        raise click.UsageError("give only one --against if it is the URL of a registry")
    if offline and against:
        raise click.UsageError("give --offline or --against, not both")
    if offline or (against and not urls):
        before = [earlier(each, path, subject, found.part) for each in against]
        return found.about(checking.check_files(wanted, before, level, owned, targets))
    with connection.open(os.environ, *urls) as client:
        registry = MemoryRegistry()
        present = present_for(RegistryReader(client), wanted, owned, about=owned)
        if used:
            from .unused import only_used  # noqa: PLC0415 - few checks ask for it

            present = only_used(client, present, wanted.versions)
            level = _transitive(level)
        registry.load(present)
    gone = subjects_to_prune(wanted, present.versions, owned)
    return found.about(checking.check(wanted, registry, level, gone, targets))


def _transitive(level: str | None) -> str:
    """Return the level that compares with all versions in use."""
    level = (level or "BACKWARD").upper()
    return level if level == "NONE" or level.endswith("_TRANSITIVE") else f"{level}_TRANSITIVE"


@click.command("lint", cls=Verb, epilog="Exit status: 0 no errors, 1 errors found, 2 no verdict possible.")
@_path_argument
@click.option("--rules", metavar="RULE,…", help="Rules whose violation is an error (docs/policies.md).")
@click.option("--warn", metavar="RULE,…", help="Rules whose violation is only reported.")
@click.option(
    "--policies",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take the rules for each subject from a registry's file of policies.",
)
@click.option("--subject", default="", metavar="NAME", help="Subject of PATH if it is a file.")
@_format_option
@json_option
@with_connection()
def lint(
    connection: Connection,
    *,
    path: Path,
    rules: str | None,
    warn: str | None,
    policies: Path | None,
    subject: str,
    form: str,
    as_json: bool,
) -> int:
    """Check that schema files are valid and follow lint rules.

    PATH is a folder or a file. Without rules on the command line, those in registrar.toml apply. With
    --url, schemas may refer to schemas of the registry.
    """
    from registry.cli.folder import checking, report  # noqa: PLC0415 - the help needs none of it
    from registry.cli.folder.memory_registry import MemoryRegistry  # noqa: PLC0415
    from registry.cli.promotion.reading import RegistryReader  # noqa: PLC0415
    from registry.cli.verbs.plans import present_for  # noqa: PLC0415

    from .folder_source import folder_of, report_folder_errors, source  # noqa: PLC0415

    if policies is not None and (rules is not None or warn is not None):
        raise click.UsageError("--policies names the rules: leave out --rules and --warn")
    with report_errors(), report_folder_errors():
        chosen = source(path, subject)
        wanted = chosen.contents
        if not wanted.versions:
            raise Failure(f"there is no schema in {path}: files must end in .avsc, .json or .proto")
        registry = MemoryRegistry()
        if connection.url:
            with connection.open(os.environ) as client:
                registry.load(present_for(RegistryReader(client), wanted))
        named = _policies(policies) if policies is not None else _rules(rules, warn, chosen.manifest)
        found = checking.lint(wanted, named, registry)
        found = [each for each in found if each.invalid or chosen.is_about(each.subject)]
    if as_json:
        print_json(report.lint_json(found))
    else:
        print_lines(
            report.lint_annotations(found, folder_of(path)) if form == "github" else report.lint_lines(found)
        )
    return REFUSED if any(each.is_refused for each in found) else OK


def _rules(rules: str | None, warn: str | None, manifest: Manifest) -> LintRules:
    from registry.cli.folder.checking import WARNINGS, LintRules  # noqa: PLC0415
    from registry.domain.schemas.lint import RULES  # noqa: PLC0415 - as above

    given = [tuple(each.split(",")) if each else () for each in (rules, warn)]
    unknown = [each for named in given for each in named if each not in RULES]
    if unknown:
        raise click.UsageError(f"unknown rule {unknown[0]}; there are {', '.join(RULES)}")
    if rules is not None or warn is not None:
        return LintRules(*given)
    if manifest.lint_errors is not None or manifest.lint_warnings is not None:
        return LintRules(manifest.lint_errors or (), manifest.lint_warnings or ())
    return LintRules((), WARNINGS)


def _policies(path: Path) -> Any:
    from registry.cli.folder.reading import decode_text  # noqa: PLC0415
    from registry.cli.folder.trees import file_on_disk  # noqa: PLC0415
    from registry.domain.policies import PolicyError, parse  # noqa: PLC0415 - as above

    try:
        return parse(decode_text(str(path), file_on_disk(path)))
    except PolicyError as error:
        raise Failure(f"{path}: {error}") from None
