"""``registrar config get | set | delete | map`` and ``registrar mode get | set | delete``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from registry.base.config.foreign.mapping import Registry, Row
from registry.base.config.foreign.translation import REGISTRIES
from registry.cli.client.resources import Config, Mode, scope_path
from registry.cli.output import OK, json_option, print_json, print_lines
from registry.cli.registry_flags import (
    confirm_everything,
    etag_option,
    if_match_option,
    moment_options,
    moment_params,
    print_etag,
    scope_argument,
    with_registry,
    yes_option,
)
from registry.cli.verb import Verb, VerbGroup

from .schema_files import read_json

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient


@click.group(cls=VerbGroup)
def config() -> None:
    """Show or change compatibility levels, normalization, aliases and other config."""


@config.command("map", cls=Verb, epilog="Exit status: 0.")
def config_map() -> int:
    """Print the settings of Confluent's Schema Registry and Karapace, with their counterparts here.

    "registrar check-config --properties FILE" prints the result for a file.
    """
    for registry in REGISTRIES:
        print(f"# {registry.title}: properties, or variables such as {registry.variable(registry.brokers)}\n")
        width = max(len(row.name) for row in registry.rows)
        for row in registry.rows:
            print(f"{row.name:<{width}}  {counterpart(row)}")
        print()
    return OK


def counterpart(row: Row) -> str:
    """Return what a setting of another registry is here, in plain text."""
    ours = ", ".join(row.ours)
    how = re.sub("`", "", row.how)
    if row.convert is None:
        return f"has no counterpart: {how}"
    return f"{ours} ({how})" if ours and how != "the same" else ours or how


def markdown(registry: Registry) -> str:
    """Return the table of a registry's settings for the docs."""
    lines = [f"| {registry.title} | here | |", "| --- | --- | --- |"]
    for row in registry.rows:
        ours = ", ".join(f"`{name}`" for name in row.ours) or ("–" if row.convert is None else "")
        lines.append(f"| `{row.name}` | {ours} | {row.how.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


LEVELS = (
    *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE"),
    # Stored as transitive ones, with ``compatibilityUsed``.
    "BACKWARD_USED",
    "FORWARD_USED",
    "FULL_USED",
)
_STATUS = "Exit status: 0 done, 1 not found or refused, 2 no answer or wrong usage."


@config.command("get", cls=Verb, epilog=_STATUS)
@scope_argument
@etag_option
@click.option("--own", is_flag=True, help="Only the config set on SUBJECT itself, not the inherited one.")
@moment_options
@json_option
@with_registry
def _get_config(
    registry: RegistryClient, *, subject: str, own: bool, etag: bool, at_offset: int | None,
    at_time: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Print the effective config of SUBJECT or a context (":.ctx:"); without SUBJECT, of the registry."""
    path = scope_path("config", subject)
    if etag:
        return print_etag(registry, path)
    moment = moment_params(at_offset, at_time)
    found = registry.get(path, Config, defaultToGlobal=bool(subject) and not own, **moment)
    _print_config(found, as_json=as_json)
    return OK


@config.command("set", cls=Verb, epilog=_STATUS)
@scope_argument
@click.option(
    "--level",
    type=click.Choice(LEVELS, case_sensitive=False),
    metavar="LEVEL",
    help=f"Compatibility level: {', '.join(LEVELS)}.",
)
@click.option(
    "--policy",
    type=click.Choice(["STRICT", "LENIENT", "LOGICAL"], case_sensitive=False),
    help="Compatibility policy: LENIENT for open JSON schemas, LOGICAL for tables in Flink and Iceberg.",
)
@click.option(
    "--normalize", type=bool, metavar="true|false", help="Normalize schemas when they are registered."
)
@click.option("--alias", metavar="SUBJECT", help="Make SUBJECT an alias of this one.")
@click.option(
    "--compatibility-group",
    metavar="PROPERTY",
    help="Compare only versions with the same value of this metadata property.",
)
@click.option(
    "--from",
    "file",
    default="",
    metavar="FILE",
    help="JSON object with the config, as in the API (-: standard input).",
)
@if_match_option
@json_option
@with_registry
def _set_config(
    registry: RegistryClient, *, subject: str, level: str | None, policy: str | None, normalize: bool | None,
    alias: str | None, compatibility_group: str | None, file: str, if_match: str, as_json: bool,
) -> int:  # fmt: skip
    """Change the config of SUBJECT or a context (":.ctx:"); without SUBJECT, of the whole registry.

    Options that are not given stay unchanged.
    """
    given = {
        "compatibility": level and level.upper(),
        "compatibilityPolicy": policy and policy.upper(),
        "normalize": normalize,
        "alias": alias,
        "compatibilityGroup": compatibility_group,
    }
    body = {
        **(read_json(file, dict) if file else {}),
        **{n: each for n, each in given.items() if each is not None},
    }
    if not body:
        raise click.UsageError("name something to set, such as --level FULL", click.get_current_context())
    path = scope_path("config", subject)
    registry.put(path, body, if_match=if_match)
    _print_config(registry.get(path, Config), as_json=as_json)
    return OK


@config.command("delete", cls=Verb, epilog=_STATUS)
@scope_argument
@if_match_option
@yes_option
@json_option
@with_registry
def _delete_config(registry: RegistryClient, *, subject: str, if_match: str, yes: bool, as_json: bool) -> int:
    """Remove the config of SUBJECT; print the effective config, which it then inherits.

    Without SUBJECT, remove the config of the whole registry, after a confirmation or with --yes.
    """
    confirm_everything(subject, "Remove the config of the whole registry?", yes=yes)
    path = scope_path("config", subject)
    registry.delete(path, if_match=if_match)
    _print_config(registry.get(path, Config, defaultToGlobal=bool(subject)), as_json=as_json)
    return OK


def _print_config(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_lines(f"{name}: {_format(value)}" for name, value in found.items())


def _format(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_force = click.option("--force", is_flag=True, help="Set IMPORT even if schemas exist.")


@click.group(cls=VerbGroup)
def mode() -> None:
    """Show or change which writes are accepted."""


@mode.command("get", cls=Verb, epilog=_STATUS)
@scope_argument
@etag_option
@click.option("--own", is_flag=True, help="Only the mode set on SUBJECT itself, not the inherited one.")
@moment_options
@json_option
@with_registry
def _get_mode(
    registry: RegistryClient, *, subject: str, own: bool, etag: bool, at_offset: int | None,
    at_time: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Print the effective mode of SUBJECT or a context (":.ctx:"); without SUBJECT, of the whole registry."""
    if etag:
        return print_etag(registry, scope_path("mode", subject))
    moment = moment_params(at_offset, at_time)
    return _print_mode(registry, subject, as_json=as_json, own=own, **moment)


@mode.command("set", cls=Verb, epilog=_STATUS)
@click.argument("value", metavar="MODE", type=click.Choice(_MODES, case_sensitive=False))
@scope_argument
@_force
@if_match_option
@json_option
@with_registry
def _set_mode(
    registry: RegistryClient, *, value: str, subject: str, force: bool, if_match: str, as_json: bool
) -> int:
    """Set the MODE of SUBJECT or a context (":.ctx:"); without SUBJECT, of the whole registry.

    MODE is READWRITE, READONLY, READONLY_OVERRIDE, IMPORT or FORWARD.
    """
    registry.put(scope_path("mode", subject), {"mode": value.upper()}, force=force, if_match=if_match)
    return _print_mode(registry, subject, as_json=as_json)


@mode.command("delete", cls=Verb, epilog=_STATUS)
@scope_argument
@if_match_option
@yes_option
@json_option
@with_registry
def _delete_mode(registry: RegistryClient, *, subject: str, if_match: str, yes: bool, as_json: bool) -> int:
    """Remove the mode of SUBJECT; print the effective mode, which it then inherits.

    Without SUBJECT, remove the mode of the whole registry, after a confirmation or with --yes.
    """
    confirm_everything(subject, "Remove the mode of the whole registry?", yes=yes)
    registry.delete(scope_path("mode", subject), if_match=if_match)
    return _print_mode(registry, subject, as_json=as_json)


def _print_mode(
    registry: RegistryClient, subject: str, *, as_json: bool, own: bool = False, **moment: Any
) -> int:
    found = registry.get(
        scope_path("mode", subject), Mode, defaultToGlobal=bool(subject) and not own, **moment
    )
    if as_json:
        print_json({"mode": found["mode"]})
    else:
        print_lines([found["mode"]])
    return OK
