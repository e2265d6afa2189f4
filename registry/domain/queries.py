"""Reads by subject, and lists: what is there, in which order, and which error says that it is not.

Subjects come as the text of the path or query, because an unqualified one is also sought in other contexts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from . import entities, errors, rows, versions
from .model import DEFAULT_CONTEXT, LATEST, VERSION_MAX, Subject
from .rows import View
from .scope import aliased
from .versions import Registered

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def parse_version(text: str) -> int:
    """A version segment of a path: ``latest`` and -1 give :data:`.model.LATEST`. Raises 42202."""
    trimmed = text.strip()
    if trimmed.lower() == "latest":
        return LATEST
    number = int(trimmed) if _INTEGER.fullmatch(trimmed) else 0
    if number == LATEST or 1 <= number <= VERSION_MAX:
        return number
    raise errors.INVALID_VERSION(text)


def version_of(view: View, subject: Subject, number: int, *, deleted: bool = False) -> Registered:
    """One version, or the latest, which is never a soft-deleted one. Raises 40401, 40402."""
    found = _find(view, subject, number, deleted=deleted)
    if found is None:
        if not versions.exists(view, subject, deleted=deleted):
            raise errors.SUBJECT_NOT_FOUND(subject.qualified)
        raise errors.VERSION_NOT_FOUND(number)
    return found


def _find(view: View, subject: Subject, number: int, *, deleted: bool) -> Registered | None:
    found = versions.named(view, subject, number)
    return None if found is None or (found.row.deleted and not deleted) else found


def version_anywhere(view: View, subject: Subject, number: int, *, deleted: bool = False) -> Registered:
    """Like :func:`version_of`; a subject absent in the default context is sought in the others, in order."""
    if subject.context == DEFAULT_CONTEXT and not versions.exists(view, subject, deleted=deleted):
        for context in versions.contexts_known(view):
            found = _find(view, Subject(context, subject.name), number, deleted=deleted)
            if found is not None:
                return found
    return version_of(view, subject, number, deleted=deleted)


def version_with_metadata(
    view: View, subject: Subject, wanted: Iterable[tuple[str, str]], *, deleted: bool = False
) -> Registered:
    """The highest version whose properties hold all wanted pairs. Raises 40401, 40403."""
    pairs = list(wanted)
    seen = False
    for each in versions.versions(view, subject, deleted=deleted, newest_first=True):
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
    """A subject's versions, ascending; soft-deleted ones negative where asked for. Raises 40401.

    ``deleted_as_negative`` wins over the other two, but has no part in whether the subject counts as there.
    """
    if not versions.exists(view, subject, deleted=deleted or deleted_only):
        raise errors.SUBJECT_NOT_FOUND(subject.qualified)
    everything = versions.versions(view, subject, deleted=deleted or deleted_only or deleted_as_negative)
    if deleted_as_negative:
        return [-each.version if each.row.deleted else each.version for each in everything]
    return [each.version for each in everything if each.row.deleted or not deleted_only]


def subjects(view: View, prefix: str, *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
    """Qualified names under a prefix, sorted; a subject counts as deleted when all its versions are.

    Prefixes (Confluent 8.x): ``:*:`` everything; ``:*:foo`` in every context; ``:.ctx:foo`` in one;
    ``:.c`` in the contexts that begin so; anything else in the default context.
    """
    found = []
    for subject, first in _subjects_under(view, prefix):
        live = not rows.is_deleted(first) or versions.exists(view, subject)
        shown = deleted_only or deleted if not live else not deleted_only
        if shown and (live or versions.exists(view, subject, deleted=True)):
            found.append(subject.qualified)
    return sorted(found)


def schemas(
    view: View, prefix: str, *, deleted: bool = False, latest_only: bool = False, rule_type: str = ""
) -> Iterator[Registered]:
    """The versions under a prefix, by subject and version. Both filters apply before ``rule_type`` does."""
    names = subjects(view, prefix, deleted=deleted)
    return _schemas_of(view, names, deleted=deleted, latest_only=latest_only, rule_type=rule_type)


def _schemas_of(
    view: View, names: Iterable[str], *, deleted: bool, latest_only: bool, rule_type: str
) -> Iterator[Registered]:
    for name in names:
        listed = versions.versions(view, Subject.parse(name), deleted=deleted, newest_first=latest_only)
        for each in islice(listed, 1) if latest_only else listed:
            if not rule_type or _has_rule(each, rule_type):
                yield each


def _has_rule(registered: Registered, rule_type: str) -> bool:
    rules = entities.rule_set(registered.row)
    groups = (rules.migration_rules, rules.domain_rules, rules.encoding_rules) if rules else ()
    return any(rule.type == rule_type for group in groups for rule in group or ())


def schemas_with_aliases(
    view: View, prefix: str, *, deleted: bool = False, latest_only: bool = False, rule_type: str = ""
) -> Iterator[tuple[Registered, list[str]]]:
    """Like :func:`schemas`, with what the aliases under the prefix point at, and each version's aliases."""
    aliases = _aliases_under(view, prefix)
    names = sorted({*subjects(view, prefix, deleted=deleted), *aliases})
    listed = _schemas_of(view, names, deleted=deleted, latest_only=latest_only, rule_type=rule_type)
    return ((each, aliases.get(each.subject.qualified, [])) for each in listed)


def _aliases_under(view: View, prefix: str) -> dict[str, list[str]]:
    aliases: dict[str, list[str]] = {}
    for start, test in ranges(view, rows.CONFIG, prefix):
        for key, value in rows.scan(view, start):
            subject = rows.scope_of(key, value)
            target = aliased(view, subject)
            if test(subject) and target != subject:
                aliases.setdefault(target.qualified, []).append(subject.qualified)
    return {target: sorted(names) for target, names in aliases.items()}


def _subjects_under(view: View, prefix: str) -> Iterator[tuple[Subject, bytes]]:
    """Each subject that has version rows, with the first one's value."""
    for start, test in ranges(view, rows.VERSION, prefix):
        row = view.seek(start)
        while row is not None and row[0].startswith(start):
            key, value = row
            subject = versions.subject_at(key, value)
            if test(subject):
                yield subject, value
            row = view.seek(rows.after(key[:-4]))


def ranges(view: View, table: bytes, prefix: str) -> list[tuple[bytes, Callable[[Subject], bool]]]:
    """Where the rows of all subjects under a prefix lie in a table, and a test for what else lies there."""
    if prefix == ":*:":
        return [(table, lambda _: True)]
    if prefix.startswith(":*:"):
        contexts = (DEFAULT_CONTEXT, *versions.contexts_known(view))
        return [_names_range(table, Subject(context, prefix[3:])) for context in contexts]
    if prefix.startswith(":.") and ":" not in prefix[1:]:
        return [(table + rows.part_prefix(prefix[1:]), lambda each: each.context.startswith(prefix[1:]))]
    return [_names_range(table, Subject.parse(prefix))]


def _names_range(table: bytes, first: Subject) -> tuple[bytes, Callable[[Subject], bool]]:
    start = rows.context_key(table, first.context) + rows.part_prefix(first.name)
    return start, lambda each: each.name.startswith(first.name)


def subjects_of_id(view: View, schema_id: int, scope: str, *, deleted: bool = False) -> list[Registered]:
    """For each subject with this id, the version recorded last; ``scope`` as by id. Raises 40403."""
    found = versions.by_id_in_scope(view, schema_id, scope)
    if found is None:
        raise errors.SCHEMA_NOT_FOUND()
    listed = versions.newest_of_each_subject(view, found.subject.context, schema_id)
    return [each for each in listed if deleted or not each.row.deleted]


def ids_of_guid(view: View, md5: bytes) -> list[tuple[str, int]]:
    """Every (context, id) of a content, sorted."""
    contexts = (DEFAULT_CONTEXT, *versions.contexts_known(view))
    return sorted(
        {
            (context, each.row.schema_id)
            for context in contexts
            for each in versions.of_content(view, context, md5)
        }
    )


def contexts(view: View, prefix: str = "") -> list[str]:
    """The contexts whose name begins with ``prefix``: the default one first, then by code points."""
    return [name for name in (DEFAULT_CONTEXT, *versions.contexts_known(view)) if name.startswith(prefix)]
