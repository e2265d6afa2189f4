"""Decisions on commands, their drafts, and checks that several commands share."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from registry.domain import errors
from registry.domain.commands import (
    Command,
    DeleteConfig,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    DeleteWebhook,
    MoveWebhook,
    PutConfig,
    PutMode,
    PutWebhook,
    Register,
    RotateWebhook,
)
from registry.domain.fold.fold import apply
from registry.domain.log_format import webhooks
from registry.domain.log_format.records import Entry, Record
from registry.domain.model import ALL_CONTEXTS, TOP, Subject
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.stored import subjects_used
from registry.domain.principal import CheckedNames
from registry.domain.queries import entities, scope, versions
from registry.domain.queries.scope import Defaults
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import View

from .ids import Ids

# Refused anyway if what they change does not exist.
_NEEDS_IT = (
    DeleteSubject, DeleteVersion, DeleteConfig, DeleteMode, DeleteWebhook, MoveWebhook, RotateWebhook,
)  # fmt: skip
_NAMES_TAKEN = frozenset({"__GLOBAL", "__EMPTY"})
# An offset and a time above those of all rows, because drafted records are the newest.
_LATER = 2**62


class Decision(NamedTuple):
    """The records of a command, in order, and its reply. Without records nothing changes."""

    entries: list[Entry]
    # JSON; empty if the answer has no body.
    reply: bytes
    # The summary from which :func:`.repeat_reply` restores the reply; ``None``: the reply itself.
    brief: bytes | None = None


def check_subject(subject: Subject, text: str, *, is_scope: bool = False, reject_empty: bool = False) -> None:
    """Refuse names that must not be written (42208); ``text`` is the name as the client sent it.

    ``is_scope``: for config and mode, which also exist for the default of all contexts.
    """
    taken = subject.name in _NAMES_TAKEN
    everywhere = subject.context == ALL_CONTEXTS and not is_scope
    empty = reject_empty and subject.name in ("", "*")
    control = not text.isprintable() and any(unicodedata.category(each) == "Cc" for each in text)
    if taken or everywhere or empty or control:
        raise errors.INVALID_SUBJECT(text)


def check_writable(view: View, subject: Subject, text: str) -> None:
    """Refuse writes in a read-only mode (42205); ``text`` is the subject's printed name."""
    if scope.mode_in_scope(view, subject) in scope.READ_ONLY:
        raise not_permitted(subject, text, "read-only")


def check_checked(checked: CheckedNames | None, operation: str, name: str) -> None:
    """Refuse a subject or context for which permissions were not checked (503); ``None``: all may be used."""
    if checked is not None and not checked.cover(operation, name):
        raise errors.NAMES_CHANGED().with_retry_after(1)


def check_condition(view: View, subject: Subject, command: Command, defaults: Defaults) -> None:
    """Refuse a command whose condition does not hold for what it changes (41280).

    A registration changes the latest version, and so does the deletion of a subject; that of one without a
    live version changes the highest. Nothing is said about what has to exist and does not: that is refused
    anyway (RFC 9110, section 13.2.1). ``subject``: the top level for commands about webhooks.
    """
    condition = defaults.condition
    if condition is None:
        return
    what, tag = _changed_by(view, subject, command, defaults)
    if tag is None and isinstance(command, _NEEDS_IT):
        return
    match, none_match = condition.match, condition.none_match
    holds = match is None or (tag is not None and (tag in match or "*" in match))
    if none_match is not None and tag is not None:
        holds = holds and tag not in none_match and "*" not in none_match
    if not holds:
        raise errors.STATE_CHANGED(what, "it does not exist" if tag is None else f'its ETag is "{tag}"')


def _changed_by(view: View, subject: Subject, command: Command, defaults: Defaults) -> tuple[str, str | None]:
    """Return what a command changes, for messages, and its entity tag; ``None`` if it does not exist."""
    place = f"'{subject.qualified}'" if subject != TOP else "the top level"
    match command:
        case PutConfig() | DeleteConfig():
            config = scope.exact_config(view, subject, defaults)
            tag = None if config is None else entities.body_tag(entities.config_entity(config))
            return f"The config of {place}", tag
        case PutMode() | DeleteMode():
            mode = scope.exact_mode(view, subject)
            return f"The mode of {place}", None if mode is None else entities.body_tag(
                entities.mode_entity(mode)
            )
        case PutWebhook(name) | DeleteWebhook(name) | MoveWebhook(name) | RotateWebhook(name):
            found_webhook = webhooks.webhook(view, name)
            tag = None if found_webhook is None else webhooks.webhook_tag(found_webhook)
            return f"The webhook '{name}'", tag
        case DeleteVersion(version=number):
            what, found = f"Version {number} of {place}", versions.version_numbered(view, subject, number)
        case _:
            what, found = f"The latest version of {place}", versions.latest(view, subject)
    if found is None and isinstance(command, DeleteSubject):
        found = versions.newest(view, subject)
    return what, None if found is None else entities.version_tag(found.version, found.row)


def check_uses(view: View, subject: Subject, command: Register, checked: CheckedNames) -> None:
    """Refuse to use schemas, directly or not, for which permissions were not checked (503)."""
    if "read" in checked.everywhere:
        return
    used = command.references or ()
    if not command.schema.strip():  # the latest version's text
        check_checked(checked, "read", subject.qualified)
        latest = versions.latest(view, subject)
        used = (*used, *(() if latest is None else entities.references(latest.row)))
    for each in subjects_used(view, subject.context, used):
        check_checked(checked, "read", each.qualified)


def not_permitted(subject: Subject, text: str, state: str) -> errors.RegistryError:
    """Return the error for a write that the mode does not permit (42205)."""
    context = scope.context_label(subject)
    what = f"is in {state} mode" if state == "read-only" else f"is not in {state} mode"
    return errors.NOT_PERMITTED(f"Subject {text} in context {context} {what}")


class Draft:
    """Records of a decision in progress, and a view of the rows as they would be with them."""

    def __init__(
        self, view: View, ids: Ids, defaults: Defaults, memory: SchemaMemory, *, start: int = 0
    ) -> None:
        """``start``: the number of records drafted before those of this draft."""
        self.view = OverlayView(view)
        self.entries: list[Entry] = []
        self.ids = ids
        self.defaults = defaults
        self.memory = memory
        self._start = start

    def add(self, entries: Iterable[Entry]) -> None:
        """Add records to the draft."""
        for entry in entries:
            at = _LATER + self._start + len(self.entries)
            self.view.commit(apply(self.view, Record(at, at, entry.key, entry.value)))
            self.entries.append(entry)

    def step(self) -> Draft:
        """Return a draft on top of this one, which can be merged or dropped."""
        drafted = self._start + len(self.entries)
        return Draft(self.view, self.ids, self.defaults, self.memory, start=drafted)

    def merge(self, step: Draft) -> None:
        """Merge the records of a step."""
        self.view.commit(step.view.changes.items())
        self.entries += step.entries
