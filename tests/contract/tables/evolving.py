"""Tables that follow a change of their schema: the SQL of an engine, and what has to be seen afterwards."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from registry.domain.schemas.logical.types import Array, Field, Kind, Leaf, Map, Struct, Type

from .changes import DISAGREEMENTS, TableChange
from .pairs import value_of

# The rows that are written: with nulls from each level on, and without.
NULLS_FROM = (0, 1, 2, 3, 100)
_SIZES = re.compile(r"\(.*?\)")


class Dialect(NamedTuple):
    """The SQL of an engine for types and values, as formats."""

    leaf: Callable[[Leaf], str]
    # A type that may be null, and one that may not.
    nullable: str = "{}"
    present: str = "{}"
    quote: str = "`"
    struct: str = "STRUCT<{}>"
    field: str = "{name}: {type}{required}"
    array: str = "ARRAY<{}>"
    multiset: str = ""
    map: str = "MAP<{key}, {value}>"
    struct_value: str = "named_struct({})"
    field_value: str = "'{text}', {value}"
    array_value: str = "array({})"
    map_value: str = "map({key}, {value})"

    def name(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def type(self, type: Type, *, in_table: bool = False) -> str:
        """Return the type of a value, or of a column, whose fields may be required."""
        match type.shape:
            case Struct(fields=fields):
                inner = (
                    self.field.format(
                        name=self.name(each.name),
                        type=self.type(each.type, in_table=in_table),
                        required=" NOT NULL" if in_table and not each.type.nullable else "",
                    )
                    for each in fields
                )
                text = self.struct.format(", ".join(inner))
            case Array(element, is_multiset):
                text = (self.multiset if is_multiset else self.array).format(
                    self.type(element, in_table=in_table)
                )
            case Map(key, value):
                pair = {"key": key, "value": value}
                text = self.map.format(
                    **{name: self.type(each, in_table=in_table) for name, each in pair.items()}
                )
            case leaf:
                text = self.leaf(leaf)
        return (self.nullable if type.nullable else self.present).format(text)

    def column(self, field: Field, prefix: str = "") -> str:
        """Return a column as it is declared."""
        required = "" if field.type.nullable else " NOT NULL"
        return f"{self.name(prefix + field.name)} {self.type(field.type, in_table=True)}{required}"

    def value(self, type: Type, nulls_from: int, column: Type | None = None) -> str:
        """Return the greatest value of a type, with null for all from a level on that may be null.

        The fields that only the column has are null.
        """
        into, below = column or type, nulls_from - 1
        if type.nullable and nulls_from <= 0:
            return self._cast("NULL", into)
        match type.shape, into.shape:
            case Struct() as shape, Struct(fields=fields):
                known = {each.name: each.type for each in shape.fields}
                inner = (
                    self.field_value.format(
                        name=self.name(each.name),
                        text=each.name,
                        value=self.value(known[each.name], below, each.type)
                        if each.name in known
                        else self._cast("NULL", each.type),
                    )
                    for each in fields
                )
                return self._cast(self.struct_value.format(", ".join(inner)), into)
            case Array(element), Array(place):
                return self._cast(self.array_value.format(self.value(element, below, place)), into)
            case Map() as one, Map() as other:
                text = self.map_value.format(
                    key=self.value(one.key, below, other.key), value=self.value(one.value, below, other.value)
                )
                return self._cast(text, into)
            case Leaf() as leaf, _:
                return self._cast(value_of(leaf), into)
        raise AssertionError(f"{type} is not a part of {into}")

    def _cast(self, text: str, type: Type) -> str:
        return f"CAST({text} AS {self.type(type)})"


class Addition(NamedTuple):
    """A field that a table gets."""

    # The names that lead to where it is added; ``element``, ``key`` or ``value`` for parts.
    path: tuple[str, ...]
    field: Field


class Retyping(NamedTuple):
    """A column or a part of one that gets another type."""

    path: tuple[str, ...]
    type: Type


class Loosening(NamedTuple):
    """A field that may be null from now on."""

    path: tuple[str, ...]


Step = Addition | Retyping | Loosening


def steps(old: Type, new: Type, path: tuple[str, ...] = ()) -> Iterator[Step]:
    """Yield what has to be altered, part by part. Fields that are gone stay in the table."""
    match old.shape, new.shape:
        case Struct() as one, Struct() as other:
            known = {each.name: each.type for each in one.fields}
            for each in other.fields:
                before = known.get(each.name)
                if before is None:
                    yield Addition(path, each)
                    continue
                if each.type.nullable and not before.nullable:
                    yield Loosening((*path, each.name))
                yield from steps(before, each.type, (*path, each.name))
        case Array(one), Array(other):
            yield from steps(one, other, (*path, "element"))
        case Map() as one, Map() as other:
            yield from steps(one.key, other.key, (*path, "key"))
            yield from steps(one.value, other.value, (*path, "value"))
        case one, other if one != other:
            yield Retyping(path, new)


def stored(type: Type) -> Type:
    """Return a type with multisets as maps from their elements to their counts."""
    match type.shape:
        case Struct() as shape:
            changed = Struct(shape.name, is_union=shape.is_union)
            changed.fields += (each._replace(type=stored(each.type)) for each in shape.fields)
            return Type(changed, type.nullable)
        case Array(element, is_multiset=True):
            return Type(Map(stored(element), Type(Leaf(Kind.INT))), type.nullable)
        case Array(element):
            return Type(Array(stored(element)), type.nullable)
        case Map(key, value):
            return Type(Map(stored(key), stored(value)), type.nullable)
    return type


def merged(old: Type, new: Type) -> Type:
    """Return the type that a column gets: fields that are gone from a struct stay, and may be null."""
    nullable = old.nullable or new.nullable
    match old.shape, new.shape:
        case Struct() as one, Struct() as other:
            fields = {each.name: each for each in other.fields}
            both = Struct(is_union=other.is_union)
            for each in one.fields:
                after = fields.pop(each.name, None)
                kept = each.type._replace(nullable=True) if after is None else merged(each.type, after.type)
                both.fields.append(Field(each.name, kept))
            both.fields += fields.values()
            return Type(both, nullable)
        case Array(one), Array(other):
            return Type(Array(merged(one, other)), nullable)
        case Map() as one, Map() as other:
            return Type(Map(merged(one.key, other.key), merged(one.value, other.value)), nullable)
    return Type(new.shape, nullable)


def is_same(old: Any, new: Any) -> bool:
    """Return true if a column that changed its type still has its value."""
    if isinstance(old, dt.date) and isinstance(new, dt.datetime) and not isinstance(old, dt.datetime):
        return new == dt.datetime.combine(old, dt.time(), new.tzinfo)
    kinds = {bool, str, bytes, bytearray} & {type(old), type(new)}
    # Spark's values of any type are only equal as texts.
    is_equal = old == new or (type(old) is type(new) and str(old) == str(new))
    return is_equal and (not kinds or type(old) is type(new))


def is_kept(old: Any, new: Any, before: Type, after: Type) -> bool:
    """Return true if a value is the same, and one of the new type."""
    if new is None or old is None:
        return after.nullable and old is new
    match before.shape, after.shape:
        case Struct() as one, Struct() as other:
            types = {each.name: each.type for each in one.fields}
            return all(
                is_kept(old[each.name], new[each.name], types[each.name], each.type)
                if each.name in types
                else has_default(new[each.name], each)
                for each in other.fields
            )
        case Array(one), Array(other):
            return all(is_kept(each, now, one, other) for each, now in zip(old, new, strict=True))
        case Map() as one, Map() as other:
            pairs = zip(old.items(), new.items(), strict=True)
            return all(
                is_kept(key, new_key, one.key, other.key) and is_kept(value, now, one.value, other.value)
                for (key, value), (new_key, now) in pairs
            )
    return is_same(old, new)


def has_default(value: Any, field: Field) -> bool:
    """Return true if a row that was written before a field existed has a value for it.

    Null is one for arrays and maps with a default: readers take it as an empty one, as Protobuf does.
    """
    if value is None:
        return field.type.nullable or (field.has_value and isinstance(field.type.shape, Array | Map))
    return field.has_value and (not isinstance(value, int | str) or value == field.default)


def distinct(target: str, dialect: Dialect, changes: Iterable[TableChange]) -> Iterator[TableChange]:
    """Yield the changes that a target can have whose columns differ from those of all before."""
    seen = set[object]()
    for each in (each for each in changes if each.can_exist(target)):
        columns = tuple(
            (dialect.column(field), repr(field.default), field.aliases, field.number)
            for side in (stored(each.old), stored(each.new))
            for field in side.shape.fields  # type: ignore[union-attr]
        )
        if columns not in seen:
            seen.add(columns)
            yield each


# Returns which changes a real table follows.
Trial = Callable[[Sequence[TableChange]], Iterable[bool]]


def check_changes(
    target: str,
    changes: Iterable[TableChange],
    trial: Trial,
    has_type: Callable[[Leaf], bool] = lambda leaf: True,
) -> set[str]:
    """Check that no verdict allows what fails, and that what works is only refused for listed reasons.

    ``has_type``: the types without parts that the engine has. Return the rules whose reasons were needed.
    """
    tried = [each for each in changes if each.can_exist(target) and each.consists_of(has_type)]
    known: Mapping[str, Mapping[str, str]] = DISAGREEMENTS[target.partition("-")[0]]
    listed = known["types"].keys() | known["rules"].keys()
    wrong, needed = [], set[str]()
    for each, works in zip(tried, trial(tried), strict=True):
        rules = each.broken_rules(target)
        if works is not bool(rules):
            continue
        needed |= rules
        if not rules or not all(each in listed or _SIZES.sub("", each) in listed for each in rules):
            wrong.append(f"{each.about}: {'works' if works else 'fails'}, {sorted(rules)}")
    assert tried
    assert not wrong, f"{len(wrong)} of {len(tried)}:\n" + "\n".join(wrong)
    return needed
