"""``registrar config map``: the settings of other registries, and their counterparts here."""

from __future__ import annotations

import re

import click

from registry.base.config.foreign.mapping import Registry, Row
from registry.base.config.foreign.translation import REGISTRIES
from registry.cli.exit_status import OK
from registry.cli.verb import Verb
from registry.cli.verb_groups import VerbGroup


@click.group(cls=VerbGroup)
def config() -> None:
    """Show or change compatibility levels, normalisation, aliases and other config."""


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
