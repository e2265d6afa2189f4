"""Reads by subject: versions, or the error if there are none.

Subjects come as the text of the path or query, because an unqualified one is also looked up in other
contexts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from registry.domain import errors
from registry.domain.model import DEFAULT_CONTEXT, LATEST, VERSION_MAX, Subject
from registry.domain.rows import layout
from registry.domain.rows.view import View

from . import entities, lists, versions
from .versions import Registered
from .walks import Search, finished

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def parse_version(text: str) -> int:
    """Return the number in a path: ``latest`` and -1 are :data:`.model.LATEST`. Raises 42202."""
    trimmed = text.strip()
    if trimmed.lower() == "latest":
        return LATEST
    number = int(trimmed) if _INTEGER.fullmatch(trimmed) else 0
    if number == LATEST or 1 <= number <= VERSION_MAX:
        return number
    raise errors.INVALID_VERSION(text)


def version_of(view: View, subject: Subject, number: int, *, deleted: bool = False) -> Registered:
    """Return one version, or the latest that is not soft-deleted. Raises 40401, 40402."""
    return finished(find_version(view, subject, number, deleted=deleted))


def find_version(view: View, subject: Subject, number: int, *, deleted: bool = False) -> Search[Registered]:
    """Search for the version that :func:`version_of` returns. Raises 40401, 40402."""
    found = yield from _find(view, subject, number, deleted=deleted)
    if found is None:
        yield from require(view, subject, deleted=deleted)
        raise errors.VERSION_NOT_FOUND(number)
    return found


def _find(view: View, subject: Subject, number: int, *, deleted: bool) -> Search[Registered | None]:
    found = yield from versions.find_named(view, subject, number)
    return None if found is None or (found.row.deleted and not deleted) else found


def version_anywhere(
    view: View, subject: Subject, number: int, *, deleted: bool = False
) -> Search[Registered]:
    """Search as :func:`find_version`; if absent in the default context, then in the others, in order."""
    if subject.context == DEFAULT_CONTEXT and not (
        yield from versions.find_any(view, subject, deleted=deleted)
    ):
        for context in versions.contexts(view):
            yield
            if context in (None, DEFAULT_CONTEXT):
                continue
            found = yield from _find(view, Subject(context, subject.name), number, deleted=deleted)
            if found is not None:
                return found
    return (yield from find_version(view, subject, number, deleted=deleted))


def version_with_metadata(
    view: View, subject: Subject, wanted: Iterable[tuple[str, str]], *, deleted: bool = False
) -> Search[Registered]:
    """Search for the highest version whose properties contain all wanted pairs. Raises 40401, 40403."""
    pairs = list(wanted)
    seen = False
    for each in versions.walk(view, subject, deleted=deleted, newest_first=True):
        yield
        if each is None:
            continue
        seen = True
        meta = entities.metadata(each.row)
        properties = (meta.properties if meta else None) or {}
        if all(properties.get(key) == value for key, value in pairs):
            return each
    raise errors.SCHEMA_NOT_FOUND() if seen else errors.SUBJECT_NOT_FOUND(subject.qualified)


def version_numbers(
    view: View,
    subject: Subject,
    *,
    deleted: bool = False,
    deleted_only: bool = False,
    deleted_as_negative: bool = False,
) -> list[int]:
    """Return a subject's versions as :func:`.lists.version_numbers` lists them. Raises 40401.

    ``deleted_as_negative`` does not affect whether the subject counts as existing.
    """
    finished(require(view, subject, deleted=deleted or deleted_only))
    found = lists.version_numbers(
        view,
        subject,
        deleted=deleted,
        deleted_only=deleted_only,
        deleted_as_negative=deleted_as_negative,
    )
    return [each for each in found if each is not None]


def require(view: View, subject: Subject, *, deleted: bool = False) -> Search[None]:
    """Search for any version of the subject with this visibility. Raises 40401 if there is none."""
    if not (yield from versions.find_any(view, subject, deleted=deleted)):
        raise errors.SUBJECT_NOT_FOUND(subject.qualified)


def subjects(view: View, prefix: str, *, deleted: bool = False) -> list[str]:
    """Return the qualified names of all subjects under a prefix, in the order of :func:`.lists.subjects`."""
    found = lists.subjects(view, prefix, deleted=deleted)
    return [each.qualified for each in found if each is not None]


def ranges(view: View, table: bytes, prefix: str) -> list[tuple[bytes, Callable[[Subject], bool]]]:
    """Return the key prefixes in a table that cover all subjects under a prefix, each with a filter."""
    if prefix == ":*:":
        return [(table, lambda _: True)]
    if prefix.startswith(":*:"):
        contexts = (DEFAULT_CONTEXT, *versions.contexts_known(view))
        return [_names_range(table, Subject(context, prefix[3:])) for context in contexts]
    if prefix.startswith(":.") and ":" not in prefix[1:]:
        return [(table + layout.part_prefix(prefix[1:]), lambda each: each.context.startswith(prefix[1:]))]
    return [_names_range(table, Subject.parse(prefix))]


def _names_range(table: bytes, first: Subject) -> tuple[bytes, Callable[[Subject], bool]]:
    start = layout.context_key(table, first.context) + layout.part_prefix(first.name)
    return start, lambda each: each.name.startswith(first.name)


def id_in_scope(view: View, schema_id: int, scope: str) -> Search[Registered]:
    """Search for the version that answers for an id in ``scope``. Raises 40403."""
    found = yield from versions.by_id_in_scope(view, schema_id, scope)
    if found is None:
        raise errors.SCHEMA_NOT_FOUND()
    return found


def ids_of_guid(view: View, md5: bytes) -> Iterator[tuple[str, int] | None]:
    """Walk the (context, id) pairs of a schema content in order."""
    for context in versions.contexts(view):
        yield None
        if context is not None:
            ids = {each.row.schema_id for each in versions.of_content(view, context, md5)}
            yield from ((context, schema_id) for schema_id in sorted(ids))
