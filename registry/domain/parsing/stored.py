"""Stored versions as schema sources, with the schemas that they refer to, and their referrers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from registry.domain import errors
from registry.domain.model import LATEST, Reference, Subject
from registry.domain.queries import entities, versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View, scan
from registry.domain.schemas import FORMATS, Dependency, Exhausted, InvalidSchema, Unreadable

from . import querying
from .querying import Querying
from .schema_queries import Source

# Maximum number of schemas that one may use, directly or indirectly: they are looked up at once.
DEPENDENCIES_MAX = 10_000


def source_of(view: View, registered: Registered, *, strict: bool = False) -> Source:
    """Return the source of a stored version; ``strict`` as for :func:`resolve`.

    Raises :class:`InvalidSchema` if a reference no longer exists or its type is not served.
    """
    row = registered.row
    listed = entities.references(row)
    _, dependencies = resolve(view, registered.subject, listed, deleted=True, strict=strict)
    source = Source(entities.schema_type(row), entities.text(row), tuple(dependencies))
    if source.schema_type not in FORMATS:
        raise InvalidSchema(f"Invalid schema type {source.schema_type}")
    return source


def require_source(view: View, registered: Registered, *, strict: bool) -> Source:
    """Return the source as :func:`source_of` does, for an answer about the version itself.

    Raises 42201 for references that cannot be used, in the words for a request with them (Confluent 8.4).
    """
    try:
        return source_of(view, registered, strict=strict)
    except Unreadable as error:
        front = f"Invalid schema of type {entities.schema_type(registered.row)}, details: "
        raise errors.INVALID_SCHEMA(f"{front}{front}{error}") from None


def format_version(
    view: View, registered: Registered, wanted: str, *, strict: bool = False
) -> Querying[VersionRow]:
    """Return the version's row with its text in a ``format`` of the API. Raises 42201.

    ``strict`` as for :func:`resolve`.
    """
    row = registered.row
    if wanted.lower() in ("", "default") or entities.schema_type(row) not in FORMATS:
        return row
    try:
        text = yield from querying.format_text(require_source(view, registered, strict=strict), wanted)
    except InvalidSchema as error:
        raise errors.INVALID_SCHEMA(str(error)) from None
    return entities.with_text(row, text)


def describe_version(
    view: View, registered: Registered, wanted: str, *, strict: bool = False
) -> Querying[VersionRow]:
    """Return the version's row as :func:`format_version` does; for ``logical`` with DDL (Confluent 8.4)."""
    row = registered.row
    if wanted.lower() != "logical" or entities.schema_type(row) not in FORMATS:
        return (yield from format_version(view, registered, wanted, strict=strict))
    try:
        source = require_source(view, registered, strict=strict)
        text = yield from querying.ddl(source, registered.subject.qualified)
    except (InvalidSchema, Exhausted) as error:
        reason = error if isinstance(error, InvalidSchema) else "It combines too many types"
        raise errors.INVALID_SCHEMA(
            f"Stored schema cannot be represented as a logical type: {reason}"
        ) from None
    return entities.with_text(row, text)


def resolve(
    view: View, subject: Subject, references: Sequence[Reference], *, deleted: bool, strict: bool = False
) -> tuple[list[Reference], list[Dependency]]:
    """Return the references with numbers in place of -1, and everything they use, dependencies first.

    A subject without a context is in that of the schema that refers to it. Of several schemas with one name
    the first one reached counts (Confluent 8.x). ``deleted``: include soft-deleted versions. ``strict``:
    refuse two versions of one name. Raises :class:`InvalidSchema` if a reference does not exist.
    """
    if not references:
        return [], []
    numbered = [
        Reference(each.name, each.subject, _target(view, subject, each, deleted).version)
        for each in references
    ]
    return numbered, _closure(view, subject, numbered, deleted, strict)


def _target(view: View, subject: Subject, reference: Reference, deleted: bool) -> Registered:
    target = Subject.within(subject.context, reference.subject)
    found = versions.version_numbered(view, target, reference.version)
    if found is None or (found.row.deleted and not deleted):
        wanted = f'subject "{reference.subject}" and version {reference.version}'
        raise Unreadable(f"No schema reference found for {wanted}")
    return found


def _closure(
    view: View, subject: Subject, references: Sequence[Reference], deleted: bool, strict: bool
) -> list[Dependency]:
    # An explicit stack: users can make chains of references of any length.
    seen: dict[str, int] = {}
    closure: list[Dependency] = []
    stack: list[tuple[Iterator[Reference], Subject, Dependency | None]] = [(iter(references), subject, None)]
    while stack:
        pending, user, dependency = stack[-1]
        reference = next(pending, None)
        if reference is None:
            stack.pop()
            if dependency is not None:
                closure.append(dependency)
            continue
        if reference.name in seen:
            if strict:
                _check_same(view, user, reference, deleted, seen[reference.name])
            continue
        if len(seen) >= DEPENDENCIES_MAX:
            raise _too_many()
        found = _target(view, user, reference, deleted)
        seen[reference.name] = found.version
        used = Dependency(reference.name, entities.text(found.row))
        stack.append((iter(entities.references(found.row)), found.subject, used))
    return closure


def _check_same(view: View, user: Subject, reference: Reference, deleted: bool, first: int) -> None:
    """Refuse another version than the ``first`` one that was met by the reference's name (Confluent 8.4)."""
    number = reference.version
    if number == LATEST:
        number = _target(view, user, reference, deleted).version
    if number != first:
        raise Unreadable(
            f'Conflicting reference versions for "{reference.name}": version {first} and version {number}'
        )


def _too_many() -> InvalidSchema:
    return InvalidSchema(f"The schema uses more than {DEPENDENCIES_MAX} other schemas")


def subjects_used(view: View, context: str, references: Iterable[Reference]) -> Iterator[Subject]:
    """Yield the subjects of the schemas that references of a ``context`` use, directly or not.

    Each comes before those that its schema refers to, and may come several times. References that do not
    exist yield their subject. Raises :class:`InvalidSchema` after :data:`DEPENDENCIES_MAX` schemas, of which
    :func:`resolve` may use fewer, because it takes one of each name.
    """
    seen: set[tuple[Subject, int]] = set()
    stack: list[tuple[str, Iterator[Reference]]] = [(context, iter(tuple(references)))]
    while stack:
        context, pending = stack[-1]
        reference = next(pending, None)
        if reference is None:
            stack.pop()
            continue
        target = Subject.within(context, reference.subject)
        yield target
        if (target, reference.version) in seen:
            continue
        seen.add((target, reference.version))
        if len(seen) > DEPENDENCIES_MAX:
            raise _too_many()
        found = versions.version_numbered(view, target, reference.version)
        if found is not None:
            stack.append((target.context, iter(entities.references(found.row))))


def referrers(view: View, subject: Subject, version: int, *, deleted: bool = True) -> Iterator[Registered]:
    """Yield the versions that refer to this one; soft-deleted ones only if ``deleted``."""
    prefix = layout.referrer_prefix(subject, version)
    for key, _ in scan(view, prefix):
        found = versions.at(view, layout.VERSION + key[len(prefix) :])
        if found is not None and (deleted or not found.row.deleted):
            yield found


def is_referred_to(view: View, subject: Subject) -> bool:
    """Return true if any registered version refers to a version of the subject."""
    return next(scan(view, layout.scope_key(layout.REFERRER, subject)), None) is not None
