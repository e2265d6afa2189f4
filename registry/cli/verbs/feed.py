"""``registrar changes``, ``history`` and ``webhook``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from registry.cli.client.resources import (
    Changes,
    Delivery,
    ErrorAnswer,
    History,
    Unreachable,
    quote_segment,
    subject_path,
)
from registry.cli.output import (
    OK,
    REFUSED,
    json_option,
    note,
    print_json,
    print_lines,
    print_table,
    printable,
)
from registry.cli.registry_flags import if_match_option, with_registry
from registry.cli.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient


_PAGE = 1000
# Longest wait of the registry for a change; the client's own timeout must be longer.
_WAIT_S, _RETRY_S = 20.0, 1.0
_UNAVAILABLE = 503
# Members of an event in the line for people, before the rest.
_FIRST = ("offset", "time", "kind", "subject")


@click.command("changes", cls=Verb, epilog="Exit status: 0 printed, 1 refused, 2 no answer.")
@click.option("--after", type=click.IntRange(-1), metavar="OFFSET", help="Begin after this offset.")
@click.option("--follow", is_flag=True, help="Follow new changes until stopped.")
@click.option("--prefix", metavar="PREFIX", help="Only subjects with this prefix; :*: for all contexts.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind of event; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@with_registry
def changes(
    registry: RegistryClient,
    *,
    after: int | None,
    follow: bool,
    prefix: str | None,
    kinds: tuple[str, ...],
    as_json: bool,
) -> int:
    """Print changes in the order of the log (docs/changes.md).

    Without --after they start at the log's beginning or, with --follow, now. --follow resumes after an
    interruption.
    """
    wanted = {"subjectPrefix": prefix, "kind": ",".join(kinds) or None, "limit": _PAGE}
    begin = -1 if after is None and not follow else after
    for event in _events(registry, wanted, begin, follow=follow):
        print(_line(event) if as_json else printable(_readable(event)))
        sys.stdout.flush()
    return OK


def _events(
    registry: RegistryClient, wanted: Mapping[str, Any], after: int | None, *, follow: bool
) -> Iterator[dict[str, Any]]:
    wait_ms = int(min(_WAIT_S, registry.timeout_s / 2) * 1000) if follow else None
    answered = True
    while True:
        try:
            found = registry.get("/changes", Changes, **wanted, after=after, wait_ms=wait_ms)
        except (Unreachable, ErrorAnswer) as error:
            if not follow or (isinstance(error, ErrorAnswer) and error.status < _UNAVAILABLE):
                raise
            if answered:
                note(f"{error}; retrying")
            answered = False
            time.sleep(_RETRY_S)
            continue
        answered = True
        yield from found["events"]
        # A page may be empty because of a filter, before the end.
        if found["next"] == after and not follow:
            return
        after = found["next"]


@click.command(
    "history", cls=Verb, epilog="Exit status: 0 printed, 1 subject not found, 2 no answer or no history."
)
@click.argument("subject")
@click.option("--limit", type=click.IntRange(1, _PAGE), default=100, help="Number of events [default: 100].")
@click.option("--oldest", is_flag=True, help="Begin with the oldest event instead of the newest.")
@json_option
@with_registry
def history(registry: RegistryClient, *, subject: str, limit: int, oldest: bool, as_json: bool) -> int:
    """Print the history of SUBJECT, newest event first, even if it was deleted."""
    order = "asc" if oldest else "desc"
    found = registry.get(f"{subject_path(subject)}/history", History, limit=limit, order=order)
    if as_json:
        print_json(found)
    else:
        print_lines(_readable(each) for each in found["events"])
        if found["completeFrom"] > 0:
            note(f"events before offset {found['completeFrom']} may be missing: the log was compacted")
    if len(found["events"]) == limit:
        note(f"there may be more than {limit} events: see --limit and --oldest")
    return OK


def _readable(event: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(event["time"] / 1000, UTC).isoformat(" ", "milliseconds")[:23]
    head = f"{event['offset']}  {moment}Z  {event['kind']}"
    about = event.get("subject") or event.get("context") or ""
    rest = [f"{name}={value}" for name, value in event.items() if name not in (*_FIRST, "context")]
    # A line for each event, whatever is in it.
    return "  ".join(filter(None, (head, about, " ".join(rest)))).replace("\n", "\\n")


def _line(event: dict[str, Any]) -> str:
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


_WEBHOOKS = "/admin/webhooks"
_STATUS = "Exit status: 0 done, 1 refused or failed, 2 no answer or wrong usage."
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
@if_match_option
@json_option
@with_registry
def _add(
    registry: RegistryClient, *, name: str, receiver: str, kinds: tuple[str, ...], prefix: str,
    start: int | None, if_match: str, as_json: bool,
) -> int:  # fmt: skip
    """Create a webhook and print the secret that its receiver needs; or change one."""
    body: dict[str, Any] = {"url": receiver, "kinds": [*kinds], "subjectPrefix": prefix}
    if start is not None:
        body["from"] = start
    made = registry.put(_path(name), body, dict[str, Any], if_match=if_match)
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
@if_match_option
@with_registry
def _remove(registry: RegistryClient, *, name: str, if_match: str) -> int:
    """Delete a webhook."""
    registry.delete(_path(name), if_match=if_match)
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
    return f"{_WEBHOOKS}/{quote_segment(name)}"


def _member(column: str) -> str:
    return "lastError" if column == "last error" else column
