"""The named parts of a Protobuf schema, for lint rules, and the tags of its messages and fields.

Paths name messages and fields without the package: ``Outer.Inner.field`` (Confluent 8.x).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from registry.domain.schemas import tags
from registry.domain.schemas.contract import Entity, Tagged
from registry.domain.schemas.lint import Element

from .model import EnumType, Field, File, Message, Option, Value


def elements(file: File) -> Iterator[Element]:
    """Yield the file, then each message and enum with what is in it."""
    yield Element("schema", "", file.package or "file", namespace=bool(file.package))
    waiting: list[tuple[str, Message | EnumType]] = [("", each) for each in reversed(file.types)]
    while waiting:
        scope, each = waiting.pop()
        path = f"{scope}{each.name}"
        if isinstance(each, EnumType):
            yield Element("enum", path, each.name)
            yield from (Element("symbol", f"{path}.{one.name}", one.name) for one in each.constants)
            continue
        if each.map_type() is None:
            yield Element("type", path, each.name)
            yield from (Element("field", f"{path}.{one.name}", one.name) for one in each.all_fields())
        waiting.extend((f"{path}.", inner) for inner in reversed(each.types))


_META: Final = {tags.RECORD: "confluent.message_meta", tags.FIELD: "confluent.field_meta"}


def list_tagged(file: File) -> list[Tagged]:
    """Return the tagged entities in the order of the text."""
    found = ((entity, _tags(each.options, entity.kind)) for entity, each in _entities(file))
    return [(entity, tuple(names)) for entity, names in found if names]


def change(file: File, wanted: tags.Changes) -> File:
    """Return the file with other tags. Raises :class:`~.contract.InvalidSchema` for an unknown path."""
    placed = list(_walk_messages(file))
    first = {each.path: at for at, each in reversed(list(enumerate(placed)))}
    named = {at: {field.name for field in placed[at].message.all_fields()} for at in first.values()}
    records: dict[int, tags.Change] = {}
    fields: dict[int, dict[str, tags.Change]] = {}
    for entity, each in wanted.items():
        is_record = entity.kind == tags.RECORD
        path, _, last = (entity.path, "", "") if is_record else entity.path.rpartition(".")
        at = first.get(path)
        if at is None or not (is_record or last in named[at]):
            tags.check_optional(entity, each)
        elif is_record:
            records[at] = each
        else:
            fields.setdefault(at, {})[last] = each
    return _rebuild(file, placed, records, fields)


class _Placed(NamedTuple):
    path: str
    message: Message
    # The index of the message around it; -1 if there is none.
    outer: int


def _walk_messages(file: File) -> Iterator[_Placed]:
    """Yield all messages in the order of the text, each after the one around it."""
    waiting = [_Placed(each.name, each, -1) for each in reversed(list(file.messages()))]
    at = 0
    while waiting:
        placed = waiting.pop()
        yield placed
        inner = [each for each in placed.message.types if isinstance(each, Message)]
        waiting += [_Placed(f"{placed.path}.{each.name}", each, at) for each in reversed(inner)]
        at += 1


def _rebuild(
    file: File,
    placed: Sequence[_Placed],
    records: Mapping[int, tags.Change],
    fields: Mapping[int, Mapping[str, tags.Change]],
) -> File:
    """Return the file with the changes to messages, by index, and to their fields, by name."""
    inner: dict[int, list[Message]] = {}
    for at in range(len(placed) - 1, -1, -1):  # inner messages come before the one around them
        message = placed[at].message
        if at in inner:
            message = message._replace(types=_types(message.types, inner.pop(at)))
        if at in records:
            message = message._replace(options=_with_tags(message.options, tags.RECORD, records[at]))
        if at in fields:
            message = _with_fields(message, fields[at])
        inner.setdefault(placed[at].outer, []).append(message)
    return file._replace(types=_types(file.types, inner.get(-1, [])))


def _types(types: Sequence[Message | EnumType], last_first: list[Message]) -> tuple[Message | EnumType, ...]:
    return tuple(last_first.pop() if isinstance(each, Message) else each for each in types)


def _entities(file: File) -> Iterator[tuple[Entity, Message | Field]]:
    for path, message, _ in _walk_messages(file):
        yield Entity(path, tags.RECORD), message
        for field in message.all_fields():
            yield Entity(f"{path}.{field.name}", tags.FIELD), field


def _with_fields(message: Message, wanted: Mapping[str, tags.Change]) -> Message:
    def change(fields: Sequence[Field]) -> tuple[Field, ...]:
        return tuple(
            field._replace(options=_with_tags(field.options, tags.FIELD, wanted[field.name]))
            if field.name in wanted
            else field
            for field in fields
        )

    oneofs = tuple(each._replace(fields=change(each.fields)) for each in message.oneofs)
    return message._replace(fields=change(message.fields), oneofs=oneofs)


def _is_meta(option: Option, kind: str) -> bool:
    return option.custom and option.name.removeprefix(".") == _META[kind]


def _meta_members(option: Option) -> Mapping[str, Value]:
    value = option.value
    if isinstance(value, Option):
        return {value.name: value.value}
    return value if isinstance(value, Mapping) else {}


def _tags(options: Sequence[Option], kind: str) -> list[str]:
    found: list[str] = []
    for option in options:
        value = _meta_members(option).get("tags", ()) if _is_meta(option, kind) else ()
        values = value if isinstance(value, tuple) else (value,)
        found += [each for each in values if isinstance(each, str)]
    return found


def meta_of(options: Sequence[Option], kind: str) -> tuple[tuple[str, ...], str]:
    """Return the tags and the documentation in the meta options of a message or a field."""
    docs = (_meta_members(each).get("doc") for each in options if _is_meta(each, kind))
    return tuple(_tags(options, kind)), next((each for each in docs if isinstance(each, str)), "")


def _with_tags(options: Sequence[Option], kind: str, wanted: tags.Change) -> tuple[Option, ...]:
    """Return the options with all contents of the meta option merged, in the position of the first."""
    names: dict[str, Value] = {}
    for option in options:
        if _is_meta(option, kind):
            for name, value in _meta_members(option).items():
                before = names.get(name)
                names[name] = value if before is None else (*_many(before), *_many(value))
    new = tags.apply_change(_tags(options, kind), wanted)
    names.pop("tags", None)
    if new:
        names["tags"] = tuple(new)
    at = next((at for at, each in enumerate(options) if _is_meta(each, kind)), len(options))
    others = [each for each in options if not _is_meta(each, kind)]
    united = [Option(_META[kind], names, custom=True)] if names else []
    return (*others[:at], *united, *others[at:])


def _many(value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else (value,)
