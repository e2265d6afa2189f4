"""Changes from one file to another, and which of them keep its data readable (Confluent 8.x).

Fields are compared by number, messages and enums by name. Within a message, changes come in the order of
Confluent's checks: oneofs, then fields by number, then the declarations inside.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from registry.domain.schemas.contract import Budget, Difference

from .changes import Change, Declaration, Item, message
from .model import SCALARS, EnumType, Field, FieldType, File, MapType, Message, OneOf
from .names import Declared, Names, inside

# A file and all names that it can use.
Sides = tuple[File, Names]

# Scalars with a common encoding can replace each other; likewise an enum and a general number.
_GROUPS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "general"),
    **dict.fromkeys(("sint32", "sint64"), "signed"),
    **dict.fromkeys(("string", "bytes"), "string"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}


def changes(old: Sides, new: Sides, budget: Budget) -> list[Change]:
    """Return all changes from ``old`` to ``new``, compatible ones too."""
    return _Comparison(old[1], new[1], budget).of_files(old[0], new[0])


def differences(
    writer: Sides, reader: Sides, reader_is: Literal["new", "old"], budget: Budget
) -> list[Difference]:
    """Return the incompatible changes from writer to reader."""
    return [
        Difference(each.type, each.path, message(each, reader_is))
        for each in changes(writer, reader, budget)
        if not each.compatible
    ]


class _At(NamedTuple):
    """A position in both files: its path, and the scopes in which names are resolved."""

    path: tuple[str, ...]
    old: str
    new: str
    # The declarations whose types are compared.
    fields: tuple[Item, Item] | None = None

    def inside(self, name: str) -> _At:
        return _At((*self.path, name), inside(self.old, name), inside(self.new, name))

    def below(self, *steps: str) -> _At:
        return self._replace(path=self.path + steps)


class _Pair(NamedTuple):
    """Two definitions to compare, because a field uses them."""

    old: Declared
    new: Declared


# Adds changes; called for each pair with whether the new definition can read data of the old one.
_Work = Generator[_Pair, bool, None]


class _Kind(NamedTuple):
    """The kind of a field's type: a group of scalars, a map, or a message, which may be unknown."""

    group: str = ""
    map: MapType | None = None
    message: Declared | None = None
    name: str = ""
    scope: str = ""

    @property
    def sort(self) -> str:
        return "scalar" if self.group else "map" if self.map else "message"


class _Comparison:
    """The comparison of two files. Definitions are compared once, on a stack: chains can be long."""

    def __init__(self, old: Names, new: Names, budget: Budget) -> None:
        self._old = old
        self._new = new
        self._budget = budget
        self._changes: list[Change] = []
        self._incompatible = 0
        self._verdicts: dict[tuple[str, str], bool] = {}

    def of_files(self, old: File, new: File) -> list[Change]:
        at = _At((), old.package, new.package)
        if old.package != new.package:
            self._add("PACKAGE_CHANGED", at, old, new)
        self._run(self._types(at, old.types, new.types))
        return self._changes

    def _run(self, work: _Work) -> None:
        stack: list[tuple[_Work, tuple[str, str], int]] = [(work, ("", ""), 0)]
        answer: bool | None = None
        while stack:
            work, key, before = stack[-1]
            try:
                pair = next(work) if answer is None else work.send(answer)
            except StopIteration:
                stack.pop()
                answer = self._verdicts[key] = self._incompatible == before
                continue
            key = (pair.old.full_name, pair.new.full_name)
            answer = self._verdicts.get(key)
            if answer is None:
                # If the pair recurs while it is being compared, it counts as compatible.
                self._verdicts[key] = True
                stack.append((self._definitions(pair), key, self._incompatible))

    def _definitions(self, pair: _Pair) -> _Work:
        at = _At(tuple(pair.old.local_name.split(".")), pair.old.full_name, pair.new.full_name)
        if isinstance(pair.old.type, Message) and isinstance(pair.new.type, Message):
            yield from self._messages(at, pair.old.type, pair.new.type)

    def _add(
        self, type_: str, at: _At, old: Declaration | None = None, new: Declaration | None = None
    ) -> None:
        items = at.fields or (old and Item(at.old, old), new and Item(at.new, new))
        change = Change(type_, "#/" + "/".join(at.path), *items)
        self._incompatible += not change.compatible
        self._changes.append(change)

    def _types(self, at: _At, old: Iterable[Message | EnumType], new: Iterable[Message | EnumType]) -> _Work:
        old, new = list(old), list(new)
        yield from self._all_messages(at, _messages(old), _messages(new))
        self._enums(at, _enums(old), _enums(new))

    def _all_messages(
        self, at: _At, old: Mapping[str, tuple[int, Message]], new: Mapping[str, tuple[int, Message]]
    ) -> _Work:
        for name in dict.fromkeys((*old, *new)):
            here = at.inside(name)
            if name not in new:
                if old[name][1].map_type() is None:
                    self._add("MESSAGE_REMOVED", here, old[name][1])
            elif name not in old:
                if new[name][1].map_type() is None:
                    self._add("MESSAGE_ADDED", here, None, new[name][1])
            else:
                yield from self._messages(here, old[name][1], new[name][1])
                if old[name][0] != new[name][0]:
                    self._add("MESSAGE_MOVED", here, old[name][1], new[name][1])

    def _enums(self, at: _At, old: Mapping[str, EnumType], new: Mapping[str, EnumType]) -> None:
        for name in dict.fromkeys((*old, *new)):
            here = at.inside(name)
            if name not in new:
                self._add("ENUM_REMOVED", here, old[name])
            elif name not in old:
                self._add("ENUM_ADDED", here, None, new[name])
            else:
                self._constants(here, old[name], new[name])

    def _constants(self, at: _At, old: EnumType, new: EnumType) -> None:
        before = {each.tag: each for each in old.constants}
        after = {each.tag: each for each in new.constants}
        for tag in sorted(before.keys() | after.keys()):
            if tag not in after:
                self._add("ENUM_CONST_REMOVED", at.below(str(tag)), before[tag])
            elif tag not in before:
                self._add("ENUM_CONST_ADDED", at.below(str(tag)), None, after[tag])
            elif before[tag].name != after[tag].name:
                self._add("ENUM_CONST_CHANGED", at.below(str(tag)), before[tag], after[tag])

    def _messages(self, at: _At, old: Message, new: Message) -> _Work:
        before, after = _Members.of(old), _Members.of(new)
        self._check_joined_oneof(at, before, new.oneofs)
        self._oneofs(at, before, after)
        gone = {name for name, oneof in before.oneofs.items() if _is_gone(oneof, after)}
        for tag in sorted(before.fields.keys() | after.fields.keys()):
            if tag not in after.fields:
                self._compare_removed(at, tag, before, gone)
            elif tag not in before.fields:
                self._compare_added(at, tag, after)
            elif not self._is_unchanged(at, tag, before, after):
                yield from self._compare_kept(at, tag, before, after)
        yield from self._types(at, old.types, new.types)

    def _check_joined_oneof(self, at: _At, before: _Members, oneofs: Iterable[OneOf]) -> None:
        """Add a change if fields of different origin join a oneof: before, they could be set together."""
        for oneof in oneofs:
            known = [each.tag for each in oneof.fields if each.tag in before.fields]
            loose = [tag for tag in known if tag not in before.oneof_of]
            origins = {before.oneof_of[tag] for tag in known if tag in before.oneof_of}
            if len(origins) + len(set(loose)) > 1:
                several = len(loose) > 1
                self._add(
                    "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if several else "FIELD_MOVED_TO_EXISTING_ONEOF",
                    at.below(oneof.name),
                    before.oneofs.get(oneof.name),
                    oneof,
                )

    def _oneofs(self, at: _At, before: _Members, after: _Members) -> None:
        for name in sorted(before.oneofs.keys() | after.oneofs.keys()):
            if name not in after.oneofs:
                self._add("ONEOF_REMOVED", at.below(name), before.oneofs[name])
            elif name not in before.oneofs:
                self._add("ONEOF_ADDED", at.below(name), None, after.oneofs[name])

    def _compare_removed(self, at: _At, tag: int, before: _Members, gone: Iterable[str]) -> None:
        oneof, field = before.oneof_of.get(tag), before.fields[tag]
        if oneof is None:
            type_ = "REQUIRED_FIELD_REMOVED" if field.label == "required" else "FIELD_REMOVED"
            self._add(type_, at.below(str(tag)), field)
        elif oneof not in gone:
            self._add("ONEOF_FIELD_REMOVED", at.below(oneof, str(tag)), field)

    def _compare_added(self, at: _At, tag: int, after: _Members) -> None:
        oneof, field = after.oneof_of.get(tag), after.fields[tag]
        if oneof is None:
            type_ = "REQUIRED_FIELD_ADDED" if field.label == "required" else "FIELD_ADDED"
            self._add(type_, at.below(str(tag)), None, field)
        else:
            self._add("ONEOF_FIELD_ADDED", at.below(oneof, str(tag)), None, field)

    def _is_unchanged(self, at: _At, tag: int, before: _Members, after: _Members) -> bool:
        """Return true if a field certainly means what it meant: most do, and names are not looked up."""
        self._budget.spend(len(at.path) + 1)
        old = before.fields[tag]
        left_oneof = tag in before.oneof_of and tag not in after.oneof_of
        return old == after.fields[tag] and old.type in SCALARS and not left_oneof

    def _compare_kept(self, at: _At, tag: int, before: _Members, after: _Members) -> _Work:
        oneof, old, new = after.oneof_of.get(tag), before.fields[tag], after.fields[tag]
        at = at._replace(fields=(Item(at.old, old), Item(at.new, new)))
        if oneof is None and tag in before.oneof_of:
            self._add("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", at.below(str(tag)))
        here = at.below(str(tag)) if oneof is None else at.below(oneof, str(tag))
        if old.name != new.name:
            self._add("FIELD_NAME_CHANGED", here)
        yield from self._field_types(here, (old.label, new.label), old.type, new.type)

    def _field_types(self, at: _At, labels: tuple[str, str], old: FieldType, new: FieldType) -> _Work:
        self._budget.spend(len(at.path) + 4)
        before, after = _kind(self._old, old, at.old), _kind(self._new, new, at.new)
        if before.sort != after.sort:
            self._add("FIELD_KIND_CHANGED", at)
        elif before.group != after.group:
            self._add("FIELD_SCALAR_KIND_CHANGED", at)
        elif before.group:
            self._labels(at, labels, before.group)
        elif before.map and after.map:
            inner = at._replace(old=before.scope, new=after.scope)
            yield from self._field_types(inner, ("", ""), before.map.key, after.map.key)
            yield from self._field_types(inner, ("", ""), before.map.value, after.map.value)
        else:
            yield from self._compare_named(at, before, after)

    def _labels(self, at: _At, labels: tuple[str, str], group: str) -> None:
        """Compare labels if both are present; singular fields of proto3 have none."""
        old, new = labels
        if old and new and old != new:
            text = group == "string"
            self._add("FIELD_STRING_OR_BYTES_LABEL_CHANGED" if text else "FIELD_NUMERIC_LABEL_CHANGED", at)

    def _compare_named(self, at: _At, before: _Kind, after: _Kind) -> _Work:
        old, new = before.message, after.message
        if old is None or new is None:
            if before.name != after.name:
                self._add("FIELD_NAMED_TYPE_CHANGED", at)
        elif old.local_name != new.local_name:
            self._add("FIELD_NAMED_TYPE_CHANGED", at)
        elif old.path or new.path:  # declarations of both are compared by name anyway
            compatible = yield _Pair(old, new)
            if not compatible:
                self._add("FIELD_NAMED_TYPE_CHANGED", at)


class _Members(NamedTuple):
    """The fields of a message by number, at any level, and the oneof of each, if any."""

    fields: dict[int, Field]
    oneofs: dict[str, OneOf]
    oneof_of: dict[int, str]

    @classmethod
    def of(cls, message: Message) -> _Members:
        return cls(
            {field.tag: field for field in message.all_fields()},
            {oneof.name: oneof for oneof in message.oneofs},
            {field.tag: oneof.name for oneof in message.oneofs for field in oneof.fields},
        )


def _is_gone(oneof: OneOf, after: _Members) -> bool:
    """Return true if all of a oneof was removed, which loses nothing that readers could distinguish."""
    return oneof.name not in after.oneofs and not any(field.tag in after.fields for field in oneof.fields)


def _messages(types: Iterable[Message | EnumType]) -> dict[str, tuple[int, Message]]:
    messages = (each for each in types if isinstance(each, Message))
    return {each.name: (place, each) for place, each in enumerate(messages)}


def _enums(types: Iterable[Message | EnumType]) -> dict[str, EnumType]:
    return {each.name: each for each in types if isinstance(each, EnumType)}


def _kind(names: Names, type_: FieldType, scope: str) -> _Kind:
    if isinstance(type_, MapType):
        return _Kind(map=type_, scope=scope)
    if type_ in SCALARS:
        return _Kind(group=_GROUPS[type_])
    declared = names.type(type_, scope)
    if declared is None:
        return _Kind(name=type_)
    if isinstance(declared.type, EnumType):
        return _Kind(group="general")
    entry = declared.type.map_type()
    if entry is not None:
        return _Kind(map=entry, scope=declared.full_name)
    return _Kind(message=declared, name=type_)
