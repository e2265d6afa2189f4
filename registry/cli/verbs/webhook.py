"""``registrar webhook list | add | remove | test``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from registry.cli.client.paths import quoted
from registry.cli.client.shapes import Delivery
from registry.cli.exit_status import OK, REFUSED
from registry.cli.output import json_option, note, print_json, print_lines, print_table
from registry.cli.registry_flags import with_registry
from registry.cli.verb import Verb
from registry.cli.verb_groups import VerbGroup

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient

_WEBHOOKS = "/admin/webhooks"
_STATUS = "Exit status: 0 done, 1 it was refused or failed, 2 no answer or wrong usage."
_name = click.argument("name", metavar="NAME", help="The webhook's name.")


@click.group(cls=VerbGroup)
def webhook() -> None:
    """Send change events to HTTP receivers, and show the state of their deliveries."""


@webhook.command("list", cls=Verb, epilog=_STATUS)
@json_option
@with_registry
def _list(registry: RegistryClient, *, as_json: bool) -> int:
    """List the webhooks and the state of their deliveries."""
    found = registry.get(_WEBHOOKS, list[dict[str, Any]])
    if as_json:
        print_json(found)
    else:
        columns = ("name", "state", "delivered", "lag", "url", "last error")
        rows = [[each.get(_member(column), "") for column in columns] for each in found]
        print_table(columns, rows, right=("delivered", "lag"))
    return OK


@webhook.command("add", cls=Verb, epilog=_STATUS)
@_name
@click.argument("receiver", metavar="RECEIVER", help="The URL to which events are sent.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind of event; repeatable.")
@click.option("--prefix", default="", metavar="PREFIX", help="Only subjects with this prefix.")
@click.option(
    "--from", "start", type=click.IntRange(min=0), metavar="OFFSET", help="The first event's offset."
)
@json_option
@with_registry
def _add(
    registry: RegistryClient, *, name: str, receiver: str, kinds: tuple[str, ...], prefix: str,
    start: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Create a webhook and print the secret that its receiver needs; or change one."""
    body = {"url": receiver, "kinds": [*kinds], "subjectPrefix": prefix}
    made = registry.put(_path(name), body if start is None else {**body, "from": start}, dict[str, Any])
    if as_json:
        print_json(made)
    elif "secret" in made:
        note("this secret is not shown again: give it to the receiver")
        print_lines([str(made["secret"])])
    else:
        note(f"{name} was changed; its secret is the same")
    return OK


@webhook.command("remove", cls=Verb, epilog=_STATUS)
@_name
@with_registry
def _remove(registry: RegistryClient, *, name: str) -> int:
    """Delete a webhook."""
    registry.delete(_path(name))
    return OK


@webhook.command("test", cls=Verb, epilog=_STATUS)
@_name
@json_option
@with_registry
def _test(registry: RegistryClient, *, name: str, as_json: bool) -> int:
    """Send a test event to a webhook and print the receiver's answer."""
    found: dict[str, Any] = registry.post(f"{_path(name)}/test", {}, Delivery)
    if as_json:
        print_json(found)
    elif found["delivered"]:
        print_lines([f"the receiver answered {found.get('status')} within {found['took_ms']} ms"])
    else:
        print_lines([found.get("error") or "the receiver did not answer"])
    return OK if found["delivered"] else REFUSED


def _path(name: str) -> str:
    return f"{_WEBHOOKS}/{quoted(name)}"


def _member(column: str) -> str:
    return "lastError" if column == "last error" else column
