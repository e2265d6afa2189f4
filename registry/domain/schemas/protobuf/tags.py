"""Tags of messages and fields: ``tags`` in the options ``confluent.message_meta`` and ``field_meta``.

Paths name messages and fields without the package: ``Outer.Inner.field`` (Confluent 8.x).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from registry.domain.schemas import tags
from registry.domain.schemas.contract import Entity, Tagged

from .model import Field, File, Message, Option, Value

_META: Final = {tags.RECORD: "confluent.message_meta", tags.FIELD: "confluent.field_meta"}


def tagged(file: File) -> list[Tagged]:
    """What carries tags, in the order of the text."""
    found = ((entity, _tags(each.options, entity.kind)) for entity, each in _entities(file))
    return [(entity, tuple(said)) for entity, said in found if said]


def change(file: File, wanted: tags.Changes) -> File:
    """The file with other tags. Raises :class:`~.contract.InvalidSchema` for a path that leads nowhere."""
    for entity, each in wanted.items():
        *outer, last = entity.path.split(".")
        names = outer if entity.kind == tags.FIELD else [*outer, last]
        chain = _chain(file, names)
        new = None if chain is None else _with_change(chain[-1], entity.kind, last, each)
        if chain is None or new is None:
            tags.check_optional(entity, each)
        else:
            file = _rebuilt(file, chain, new)
    return file


def _entities(file: File) -> Iterator[tuple[Entity, Message | Field]]:
    waiting = [("", each) for each in reversed(list(file.messages()))]
    while waiting:
        scope, message = waiting.pop()
        path = f"{scope}{message.name}"
        yield Entity(path, tags.RECORD), message
        for field in message.all_fields():
            yield Entity(f"{path}.{field.name}", tags.FIELD), field
        waiting += [(f"{path}.", each) for each in reversed(message.types) if isinstance(each, Message)]


def _chain(file: File, names: Sequence[str]) -> list[Message] | None:
    """The messages of a path, outermost first."""
    chain: list[Message] = []
    for name in names:
        types = chain[-1].types if chain else file.types
        found = next((each for each in types if isinstance(each, Message) and each.name == name), None)
        if found is None:
            return None
        chain.append(found)
    return chain or None


def _rebuilt(file: File, chain: Sequence[Message], new: Message) -> File:
    old = chain[-1]
    for outer in reversed(chain[:-1]):
        types = tuple(new if each is old else each for each in outer.types)
        old, new = outer, outer._replace(types=types)
    return file._replace(types=tuple(new if each is old else each for each in file.types))


def _with_change(message: Message, kind: str, name: str, wanted: tags.Change) -> Message | None:
    if kind == tags.RECORD:
        return message._replace(options=_with_tags(message.options, kind, wanted))
    return _with_field(message, name, wanted)


def _with_field(message: Message, name: str, wanted: tags.Change) -> Message | None:
    def each_field(fields: Sequence[Field]) -> tuple[Field, ...]:
        return tuple(
            field._replace(options=_with_tags(field.options, tags.FIELD, wanted))
            if field.name == name
            else field
            for field in fields
        )

    if all(field.name != name for field in message.all_fields()):
        return None
    oneofs = tuple(each._replace(fields=each_field(each.fields)) for each in message.oneofs)
    return message._replace(fields=each_field(message.fields), oneofs=oneofs)


def _is_meta(option: Option, kind: str) -> bool:
    return option.custom and option.name.removeprefix(".") == _META[kind]


def _said(option: Option) -> Mapping[str, Value]:
    value = option.value
    if isinstance(value, Option):
        return {value.name: value.value}
    return value if isinstance(value, Mapping) else {}


def _tags(options: Sequence[Option], kind: str) -> list[str]:
    found: list[str] = []
    for option in options:
        value = _said(option).get("tags", ()) if _is_meta(option, kind) else ()
        values = value if isinstance(value, tuple) else (value,)
        found += [each for each in values if isinstance(each, str)]
    return found


def _with_tags(options: Sequence[Option], kind: str, wanted: tags.Change) -> tuple[Option, ...]:
    """The options with all that the meta option says in one, at the place of the first."""
    said: dict[str, Value] = {}
    for option in options:
        if _is_meta(option, kind):
            for name, value in _said(option).items():
                before = said.get(name)
                said[name] = value if before is None else (*_many(before), *_many(value))
    new = tags.changed(_tags(options, kind), wanted)
    said.pop("tags", None)
    if new:
        said["tags"] = tuple(new)
    at = next((at for at, each in enumerate(options) if _is_meta(each, kind)), len(options))
    others = [each for each in options if not _is_meta(each, kind)]
    united = [Option(_META[kind], said, custom=True)] if said else []
    return (*others[:at], *united, *others[at:])


def _many(value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else (value,)
