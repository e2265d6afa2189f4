"""``registrar ids list | release``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from registry.cli.client.resources import IdUsage
from registry.cli.output import OK, json_option, print_json, print_table
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient

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
    _print([*registry.pages(_IDS, IdUsage)], as_json=as_json)
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
    _print([found], as_json=as_json)
    return OK


def _print(found: list[IdUsage], *, as_json: bool) -> None:
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
