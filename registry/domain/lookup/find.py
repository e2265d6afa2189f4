"""Lookup of a schema under a subject, and replies to registrations that need no write."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.model import DEFAULT_CONTEXT, LATEST, Metadata, Subject
from registry.domain.parsing import querying, stored
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Paused, Querying
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import (
    TAKES_IDS,
    Config,
    ConfiguredSubject,
    Defaults,
    effective_config,
    mode_in_scope,
    validates_fields,
    with_own_config,
)
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
from registry.domain.schemas import InvalidSchema

from . import registration
from .equivalents import candidates
from .metadata import VERSION_PROPERTY, merge_inherited, property_of, without_version
from .registration import Content


class Match(NamedTuple):
    """A version that matches the schema of a request."""

    registered: Registered
    # Found by its content; the answer then has no timestamps.
    exact: bool


def find(
    view: View,
    memory: SchemaMemory,
    subject: Subject,
    content: Content,
    *,
    deleted: bool = False,
    latest_only: bool = False,
) -> Querying[Match | None]:
    """Return the version under ``subject`` with the same content, else the newest equivalent one."""
    if not latest_only:
        same = of_same_content(view, subject, content)
        if same and (deleted or not same[-1].row.deleted):
            return Match(same[-1], exact=True)
    if latest_only:
        latest = versions.latest(view, subject)
        row = iter([] if latest is None else [latest])
    else:
        row = yield from candidates(view, memory, subject, content, deleted=deleted)
    found = yield from querying.first(_if_equivalent(view, content, each) for each in row)
    return None if found is None else Match(found, exact=False)


def _if_equivalent(view: View, content: Content, stored: Registered) -> Querying[Registered | None]:
    return stored if (yield from equivalent(view, content, stored)) else None


def of_same_content(view: View, subject: Subject, content: Content) -> list[Registered]:
    """Return the versions under ``subject`` with exactly this content and type, in order of their records."""
    found = versions.of_content_in(view, subject, content.md5)
    return sorted((each for each in found if content.is_that_of(each.row)), key=lambda each: each.row.offset)


def equivalent(view: View, content: Content, registered: Registered) -> Querying[bool]:
    """Compare a content with a stored version, tolerantly (Confluent 8.x).

    The texts must have the same meaning, metadata and rules must be equal (except for a version repeated in
    the metadata), and the references must be equal, or all be inlined by the client.
    """
    row = registered.row
    if entities.schema_type(row) != content.schema_type:
        return False
    listed = entities.references(row)
    if content.references != listed and (content.references or not listed):
        return False
    if content.rules != entities.rule_set(row):
        return False
    if not _same_metadata(content.metadata, entities.metadata(row), registered.version):
        return False
    if content.references == listed and entities.text(row) == content.text:
        return True
    try:
        return (yield from querying.equivalent(content.source, stored.source_of(view, registered)))
    except InvalidSchema:
        return False


def _same_metadata(sent: Metadata | None, stored: Metadata | None, version: int) -> bool:
    sent_version, stored_version = property_of(sent, VERSION_PROPERTY), property_of(stored, VERSION_PROPERTY)
    if (sent_version is None) == (stored_version is None):
        return sent == stored
    if stored_version is None and sent_version != str(version):
        return False
    return without_version(sent) == without_version(stored)


def content_under(
    view: View, subject: Subject, request: Register, config: Config, defaults: Defaults, *, new: bool = False
) -> Querying[Content]:
    """Return the content of a request as the ``config`` that applies to ``subject`` has it read.

    It is normalized if the request or the config asks for that, and ``validateFields`` applies to repeats and
    lookups too; neither where clients bring ids. ``new``, and errors: as for :func:`.registration.read`.
    """
    normalize = bool(request.normalize or config.normalize)
    fields = validates_fields(config, defaults)
    if (normalize or fields) and mode_in_scope(view, subject) in TAKES_IDS:
        normalize = fields = False
    how = {"new": new, "normalize": normalize, "fields": fields, "strict": defaults.strict_references}
    return (yield from registration.read(view, subject, request, **how))


def lookup(
    view: View,
    memory: SchemaMemory,
    place: ConfiguredSubject,
    request: Register,
    defaults: Defaults,
    *,
    deleted: bool = False,
    elsewhere: str | None = None,
) -> Querying[bytes | None]:
    """Return the answer of ``POST /subjects/{subject}``: a ``Schema``, or ``None``. Raises 42201.

    ``elsewhere``: look in this context instead, and return ``None`` on errors.
    """
    try:
        if elsewhere is not None:
            place = with_own_config(view, Subject(elsewhere, place.subject.name))
        found = yield from lookup_in(view, memory, place, request, defaults, deleted)
    except RegistryError:
        if elsewhere is None:
            raise
        found = None
    if found is None:
        return None
    row = yield from stored.format_version(view, found.registered, request.format)
    return entities.schema_entity(row, times=not found.exact)


def next_context(view: View, subject: Subject, after: str | None, *, deleted: bool) -> Search[str]:
    """Search for the next non-default context that has a subject of the same name.

    Raises 40401 or 40403 for the subject if there is none, or if it is not in the default context.
    """
    for context in versions.contexts(view, "", after) if subject.context == DEFAULT_CONTEXT else ():
        yield
        if context is None or context == DEFAULT_CONTEXT:
            continue
        if (yield from versions.find_any(view, Subject(context, subject.name), deleted=True)):
            return context
    if not (yield from versions.find_any(view, subject, deleted=deleted)):
        raise errors.SUBJECT_NOT_FOUND(subject.qualified)
    raise errors.SCHEMA_NOT_FOUND()


def lookup_in(
    view: View,
    memory: SchemaMemory,
    place: ConfiguredSubject,
    request: Register,
    defaults: Defaults,
    deleted: bool = False,
) -> Querying[Match | None]:
    """Look up the schema of a request in exactly this subject. Raises 42201."""
    if not request.schema.strip():
        # Confluent 8.x: an empty text is not found, rather than invalid.
        return None
    subject, config = place.subject, effective_config(view, place, defaults)
    latest = versions.latest(view, subject)
    content = yield from content_under(view, subject, request, config, defaults)
    found = yield from find(view, memory, subject, content, deleted=deleted)
    if found is None and mode_in_scope(view, subject) not in TAKES_IDS:
        yield from _check(content, request)
    if found is not None or latest is None:
        return found
    sent = (content.metadata, content.rules)
    given = merge_inherited(config, sent, (entities.metadata(latest.row), entities.rule_set(latest.row)))
    if given == sent:
        return None
    return (yield from find(view, memory, subject, content.with_metadata(*given), deleted=deleted))


def _check(content: Content, request: Register) -> Querying[None]:
    """Refuse an invalid schema (42201) instead of reporting it as not found."""
    try:
        yield from querying.check(content.source)
    except InvalidSchema as error:
        raise registration.invalid(request, error) from None


def of_latest(request: Register, latest: Registered) -> Register:
    """Return a request without text with the latest version's text, type and references filled in."""
    return msgspec.structs.replace(
        request,
        schema=entities.text(latest.row),
        schema_type=entities.schema_type(latest.row),
        references=entities.references(latest.row),
    )


def already_registered(
    view: View, memory: SchemaMemory, place: ConfiguredSubject, request: Register, defaults: Defaults
) -> Querying[bytes | None]:
    """Return the reply to a registration under a subject that needs no write, or ``None``.

    ``None`` may also mean that an existing version would take long to find. A reply is valid on any node and
    in any mode (Confluent 8.x), but not under a config that adds metadata or rules. Raises 42201 if there is
    any version to compare with.
    """
    if not request.schema.strip():
        return None
    subject = place.subject
    if versions.newest(view, subject) is None:
        return None
    config = effective_config(view, place, defaults)
    if config.adds:
        return None
    content = yield from content_under(view, subject, request, config, defaults)
    try:
        return (yield from shortcut(view, memory, subject, content, request))
    except Paused:
        return None  # the primary needs these versions anyway


def shortcut(
    view: View, memory: SchemaMemory, subject: Subject, content: Content, request: Register
) -> Querying[bytes | None]:
    """Return the reply if an existing version satisfies the request.

    A version whose id stands for another content does not: clients would read that content by the id.
    """
    found = yield from find(view, memory, subject, content, latest_only=request.version == LATEST)
    if found is None:
        return None
    answer = _as_asked(view, found, request)
    if answer is None or (request.schema_id < 0 and not versions.owns_id(view, answer.registered)):
        return None
    row = yield from stored.format_version(view, answer.registered, request.format)
    return entities.registration_response(row, answer.registered.version, times=not answer.exact)


def _as_asked(view: View, found: Match, request: Register) -> Match | None:
    subject, version, row = found.registered
    same_id = request.schema_id == row.schema_id
    if request.version in (0, LATEST):
        return found if same_id or request.schema_id < 0 else None
    if request.version == version:
        return found if same_id else None
    other = versions.get(view, subject, request.version)
    if (
        not same_id
        or other is None
        or other.deleted
        or (other.schema_id, other.md5) != (row.schema_id, row.md5)
    ):
        return None
    return Match(Registered(subject, request.version, other), found.exact)
