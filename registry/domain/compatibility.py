"""Whether a schema may follow the versions that are there, and why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, tee
from typing import Literal

import orjson

from . import entities, errors, parsing, versions
from .commands import Register
from .errors import RegistryError
from .lookup import normalizes
from .metadata import RESERVED_PROPERTY, property_of
from .model import LATEST, Metadata, Subject
from .parsing import Content, Parser, TooMuchText
from .rows import View
from .schemas import Budget, Exhausted, InvalidSchema
from .scope import Config, Defaults, config_in_scope, validates_fields, validates_new_schemas
from .versions import Registered

_TEXT_SHOWN_MAX = 10_240
_TOO_LONG = "The comparison with version %d of subject '%s' takes too long; the schemas combine too much"

_Reader = Literal["new", "old"]
_READERS: dict[str, tuple[_Reader, ...]] = {
    "NONE": (),
    "BACKWARD": ("new",),
    "BACKWARD_TRANSITIVE": ("new",),
    "FORWARD": ("old",),
    "FORWARD_TRANSITIVE": ("old",),
    "FULL": ("old", "new"),
    "FULL_TRANSITIVE": ("old", "new"),
}
"""Who must be able to read the other's data at each level, in the order in which differences are told."""


def check(
    view: View,
    parser: Parser,
    content: Content,
    earlier: Iterable[Registered],
    config: Config,
    defaults: Defaults,
) -> list[str]:
    """Why ``content`` may not follow ``earlier`` (newest first, none soft-deleted); empty where it may.

    The messages are Confluent's: reserved fields, differences to the first version that fails, that version's
    number and text, and the rules that applied.
    """
    level = config.compatibility_level or defaults.compatibility
    fields_checked = validates_fields(config, defaults)
    messages: list[str] = []
    if fields_checked:
        earlier, latest = tee(earlier)
        messages += _reserved_fields(parser, content, next(latest, None))
    messages += _against(view, parser, content, _compared(content, earlier, config, level), level)
    if messages:
        checked = "true" if fields_checked else "false"
        messages.append(f"{{validateFields: '{checked}', compatibility: '{level}'}}")
    return messages


def _compared(
    content: Content, earlier: Iterable[Registered], config: Config, level: str
) -> Iterator[Registered]:
    group = config.compatibility_group
    if group is not None:
        value = property_of(content.metadata, group)
        earlier = (each for each in earlier if property_of(entities.metadata(each.row), group) == value)
    return islice(earlier, None if level.endswith("_TRANSITIVE") else 1)


def _against(
    view: View, parser: Parser, content: Content, compared: Iterable[Registered], level: str
) -> list[str]:
    budget = parser.budget()
    for each in compared if _READERS[level] else ():
        if entities.schema_type(each.row) != content.schema_type:
            return ["Incompatible because of different schema type"]
        differences = _differences(view, parser, content, each, level, budget)
        if differences:
            return [*differences, *_what_failed(each)]
    return []


def _differences(
    view: View, parser: Parser, content: Content, old: Registered, level: str, budget: Budget
) -> list[str]:
    compare, too_long = parser.differences, _TOO_LONG % (old.version, old.subject.qualified)
    try:
        new_schema, old_schema = content.parsed(parser), parser.stored(view, old)
        found: list[str] = []
        for reader_is in _READERS[level]:
            pair = (new_schema, old_schema) if reader_is == "new" else (old_schema, new_schema)
            found += [each.text for each in compare(*pair, reader_is=reader_is, budget=budget)]
    except InvalidSchema as error:
        return [f"Unexpected exception during compatibility check: {error}"]
    except TooMuchText as too_much:
        too_much.refusal = too_long
        raise
    except Exhausted:
        raise errors.UNPROCESSABLE(too_long) from None
    return found


def _what_failed(old: Registered) -> list[str]:
    text = entities.text(old.row)
    if len(text) <= _TEXT_SHOWN_MAX:
        shown = f"{{oldSchema: '{text}'}}"
    else:
        shown = f"{{oldSchema: <truncated> '{text[:_TEXT_SHOWN_MAX]}...'}}"
    return [f"{{oldSchemaVersion: {old.version}}}", shown]


def _reserved_fields(parser: Parser, content: Content, latest: Registered | None) -> list[str]:
    reserved = _reserved(content.metadata)
    before = _reserved(entities.metadata(latest.row)) if latest is not None else []
    messages = [
        f"The new schema has reserved field {name} removed from its metadata which is present in the old "
        "schema's metadata."
        for name in before
        if name not in reserved
    ]
    if reserved:
        fields = content.parsed(parser).field_names()
        messages += [
            f"The new schema has field that conflicts with the reserved field {name}."
            for name in reserved
            if name in fields
        ]
    return messages


def _reserved(meta: Metadata | None) -> list[str]:
    names = (property_of(meta, RESERVED_PROPERTY) or "").split(",")
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def answer(
    view: View, parser: Parser, request: Register, number: int | None, defaults: Defaults, *, verbose: bool
) -> bytes:
    """The answer of the compatibility resources: against one version, or all (``number`` is ``None``).

    A version that is not there is 40402, but a missing subject has no latest version to be incompatible with.
    What cannot be parsed is 42201, or, where ``verbose``, incompatible. Raises those two.
    """
    subject = Subject.parse(request.subject)
    earlier = _earlier(view, subject, number)
    try:
        messages = _messages(view, parser, subject, request, earlier, defaults)
    except RegistryError as error:
        if not verbose or error.code != errors.INVALID_SCHEMA.code:
            raise
        messages = [error.message]
    members = {"is_compatible": not messages}
    return orjson.dumps(members | {"messages": messages} if verbose else members)


def _earlier(view: View, subject: Subject, number: int | None) -> Iterable[Registered]:
    if number is None:
        return versions.versions(view, subject, newest_first=True)
    found = versions.named(view, subject, number)
    if found is not None and not found.row.deleted:
        return [found]
    if number == LATEST:
        return []
    raise errors.VERSION_NOT_FOUND(number)


def _messages(
    view: View,
    parser: Parser,
    subject: Subject,
    request: Register,
    earlier: Iterable[Registered],
    defaults: Defaults,
) -> list[str]:
    if not request.schema.strip():
        raise errors.INVALID_SCHEMA("Empty schema")
    config = config_in_scope(view, subject, defaults)
    new = request.schema_id < 0 and validates_new_schemas(config, defaults)
    normalize = normalizes(view, subject, request, config)
    fields = validates_fields(config, defaults)
    content = parsing.read(view, parser, subject, request, new=new, normalize=normalize, fields=fields)
    return check(view, parser, content, earlier, config, defaults)
