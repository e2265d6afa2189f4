"""Decisions on Registrar's own records: webhooks and their positions, and markers of snapshots."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from registry.domain import errors
from registry.domain.commands import (
    AdvanceWebhook,
    DeleteWebhook,
    DisableWebhook,
    MoveWebhook,
    PutWebhook,
    RequestSnapshot,
    RotateWebhook,
    Submitted,
    WebhookCommand,
)
from registry.domain.events import Kind
from registry.domain.log_format import records, webhooks
from registry.domain.log_format.records import SNAPSHOT, SNAPSHOT_KEY, Entry
from registry.domain.log_format.webhooks import Webhook, position_value, webhook_value
from registry.domain.rows import layout
from registry.domain.rows.view import View

from .decision import Decision

WEBHOOKS_MAX = 100
URL_CHARACTERS_MAX = 2_000
PREFIX_CHARACTERS_MAX = 1_000
# Stands for the position after the command's own records.
NOW = -1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME_NEEDED = "its name needs 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first"
_URL = re.compile(rf"[!-~]{{1,{URL_CHARACTERS_MAX}}}")
_SCHEMES = ("http", "https")
_KINDS = tuple(each.value for each in Kind)


def decide_webhook(view: View, command: WebhookCommand) -> Decision:
    """Return the records and the reply of a command about webhooks. Raises 40481, 42282, 42283."""
    match command:
        case PutWebhook():
            return _put(view, command)
        case DeleteWebhook(name):
            _existing(view, name)
            keys = (records.webhook_key(name), records.position_key(name))
            return Decision([Entry(key, None) for key in keys], b"")
        case RotateWebhook():
            return _rotate(view, command)
        case MoveWebhook():
            return _move(view, command)
        case AdvanceWebhook():
            return _advance(view, command)
        case DisableWebhook():
            return _disable(view, command)


def check_start(command: Submitted, end: int) -> None:
    """Raise 400 if a webhook would begin beyond ``end``, where the log ends, and be silent until then."""
    if isinstance(command, PutWebhook):
        name, offset = "from", command.start
    elif isinstance(command, MoveWebhook):
        name, offset = "offset", command.to
    else:
        return
    if offset > end:
        raise errors.BAD_REQUEST(f"{name} is beyond the end of the log: its last offset is {end - 1}")


def _put(view: View, command: PutWebhook) -> Decision:
    """Create or change a webhook; an existing one keeps its position. Raises 42282, 42283."""
    _check(command)
    old = webhooks.webhook(view, command.name)
    if old is None and len(webhooks.webhooks(view)) >= WEBHOOKS_MAX:
        raise errors.WEBHOOKS_LIMIT(WEBHOOKS_MAX)
    base = old or Webhook(url=command.url, id=command.id, key=command.key, name=command.name)
    new = replace(
        base, url=command.url, kinds=sorted({*command.kinds}), subject_prefix=command.subject_prefix,
        enabled=command.enabled, reason="",
    )  # fmt: skip
    entries = [] if new == old else [_record(new)]
    if old is None:
        entries.append(_position(new.name, None if command.start == NOW else command.start))
    return Decision(entries, webhooks.webhook_entity(new))


def _rotate(view: View, command: RotateWebhook) -> Decision:
    """Give a webhook another secret. Raises 40481."""
    old = _existing(view, command.name)
    new = replace(old, rotations=old.rotations + 1, rotated=command.now, key=command.key)
    return Decision([_record(new)], webhooks.webhook_entity(new))


def _move(view: View, command: MoveWebhook) -> Decision:
    """Move the position of a webhook to where an administrator wants it. Raises 40481."""
    webhook = _existing(view, command.name)
    return Decision(
        [_position(webhook.name, None if command.to == NOW else command.to)], webhooks.webhook_entity(webhook)
    )


def _advance(view: View, command: AdvanceWebhook) -> Decision:
    """Move a position on after a delivery, unless the webhook or its position has changed meanwhile."""
    webhook = webhooks.webhook(view, command.name)
    if webhook is None or webhook.id != command.id or webhooks.position(view, webhook) != command.since:
        return Decision([], b"")
    return Decision([_position(webhook.name, command.to)], b"")


def _disable(view: View, command: DisableWebhook) -> Decision:
    """Disable a webhook whose receiver wants no more events, unless it has changed meanwhile."""
    webhook = webhooks.webhook(view, command.name)
    if webhook is None or not webhook.enabled or webhook.offset != command.offset:
        return Decision([], b"")
    return Decision([_record(replace(webhook, enabled=False, reason=command.reason))], b"")


def _existing(view: View, name: str) -> Webhook:
    found = webhooks.webhook(view, name)
    if found is None:
        raise errors.WEBHOOK_NOT_FOUND(name)
    return found


def _record(webhook: Webhook) -> Entry:
    return Entry(records.webhook_key(webhook.name), webhook_value(webhook))


def _position(name: str, offset: int | None) -> Entry:
    return Entry(records.position_key(name), position_value(offset))


def _check(command: PutWebhook) -> None:
    if not _NAME.fullmatch(command.name):
        raise errors.INVALID_WEBHOOK(_NAME_NEEDED)
    if len(command.subject_prefix) > PREFIX_CHARACTERS_MAX:
        raise errors.INVALID_WEBHOOK(f"subjectPrefix is longer than {PREFIX_CHARACTERS_MAX} characters")
    for kind in command.kinds:
        if kind not in _KINDS:
            known = ", ".join(_KINDS)
            raise errors.INVALID_WEBHOOK(f"unknown kind of event {kind[:60]!r}; known kinds: {known}")
    if why := _wrong_with(command.url):
        raise errors.INVALID_WEBHOOK(f"its url {why}")


def _wrong_with(url: str) -> str:
    """Return why a URL cannot be used; empty if it can, as far as its text shows."""
    if not _URL.fullmatch(url):
        return f"is not 1 to {URL_CHARACTERS_MAX} printable ASCII characters; encode all others"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"is malformed: {error}"
    if parts.scheme not in _SCHEMES:
        return "does not begin with https:// or http://"
    if not parts.hostname or port == 0:
        return "names no host, or port 0"
    if "@" in parts.netloc:
        return "contains credentials; receivers authenticate the signature instead"
    return "has a fragment, which is never sent" if parts.fragment else ""


class Marker(msgspec.Struct, frozen=True):
    """A marker as its row holds it."""

    # Random hexadecimal digits that identify the request.
    request: str
    # The offset of the record.
    offset: int = -1
    # When it was appended, in ms since the epoch.
    ts: int = 0

    @property
    def end(self) -> int:
        """The offset of the snapshot, which is that of the next record to apply."""
        return self.offset + 1


_decode = msgspec.json.Decoder(Marker).decode
_ROW = layout.cluster_key(SNAPSHOT)


def newest_marker(view: View) -> Marker | None:
    """Return the newest applied marker; ``None`` if there is none or it is not in this registry's form."""
    row = view.get(_ROW)
    try:
        return None if row is None else _decode(row)
    except msgspec.MsgspecError:
        return None


def marker_record(request: str) -> Entry:
    """Return the record that requests a snapshot."""
    return Entry(SNAPSHOT_KEY, msgspec.json.encode({"request": request}))


def request_snapshot(view: View, command: RequestSnapshot) -> Decision:
    """Append a marker, unless the newest one still waits for its build or belongs to this request.

    There is no reply: the row of the newest marker identifies the snapshot.
    """
    marker = newest_marker(view)
    if marker is not None and (marker.offset > command.begun or marker.request == command.request):
        return Decision([], b"")
    return Decision([marker_record(command.request)], b"")
