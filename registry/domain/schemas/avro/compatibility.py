"""Compatibility of a reader's schema with a writer's schema, with the reasons that Java Avro 1.12 finds.

Order and paths of the differences are also Java's. A path is relative to the start of the comparison, and
starts again inside each branch of a union, because Java compares branches separately.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from registry.domain.schemas.contract import Budget, Difference
from registry.domain.schemas.trampoline import Walk, run

from .canonical import canonical_text
from .model import MISSING, Array, Enum, Field, Fixed, Map, Named, Node, Primitive, Record, Union

# Shared types can differ in exponentially many places; the result does not need them all.
MAX_DIFFERENCES: Final = 1000

# Limit on pairs of named types compared in full, as in Java; further types are first compared by name.
THOROUGH_PAIRS: Final = 10_000

# Limit on pairs of named types before the comparison gives up; Java would go on for hours.
MAX_PAIRS: Final = 50_000

_PROMOTIONS: Final = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
_DESCRIPTIONS: Final = {
    "FIXED_SIZE_MISMATCH": (
        "The size of FIXED type field at path '{path}' in the {reader} schema"
        " does not match with the {writer} schema"
    ),
    "TYPE_MISMATCH": (
        "The type (path '{path}') of a field in the {reader} schema does not match with the {writer} schema"
    ),
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": (
        "The {reader} schema is missing enum symbols '{info}' at path '{path}' in the {writer} schema"
    ),
    "MISSING_UNION_BRANCH": (
        "The {reader} schema is missing a type inside a union field at path '{path}' in the {writer} schema"
    ),
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field '{info}' at path '{path}' in the {reader} schema has no default value"
        " and is missing in the {writer} schema"
    ),
}


class _SchemaPath(NamedTuple):
    """A path in the reader's schema, as a linked list of steps."""

    before: _SchemaPath | None
    step: str
    # The reader's and the writer's field, if this step leads to their types.
    fields: tuple[Field, Field] | None = None

    def path(self) -> str:
        steps: list[str] = []
        position: _SchemaPath | None = self
        while position is not None and position.before is not None:
            steps.append(position.step)
            position = position.before
        return "/" + "/".join(reversed(steps))

    def nearest_fields(self) -> tuple[Field, Field] | None:
        """Return the innermost fields on the path; ``None`` outside of all fields."""
        position: _SchemaPath | None = self
        while position is not None and position.fields is None:
            position = position.before
        return None if position is None else position.fields


_ROOT: Final = _SchemaPath(None, "")


class Incompatibility(NamedTuple):
    """One reason, and the parts that it was found between."""

    type: str
    position: _SchemaPath
    info: str
    reader: Node | Field
    writer: Node


class NoVerdictError(Exception):
    """Raised if the comparison cannot finish: it takes too long, or a reader's field matches two."""


def differences(
    reader: Node, writer: Node, reader_is: Literal["new", "old"], budget: Budget | None = None
) -> list[Difference]:
    """Return every reason why ``reader`` cannot read data of ``writer``, as Java's Avro and Confluent do.

    Raises :class:`~.contract.Exhausted`.
    """
    try:
        found = compare(reader, writer, Budget() if budget is None else budget)
    except NoVerdictError as error:
        return [no_verdict(error)]
    return [difference(item, reader_is) for item in found]


def compare(reader: Node, writer: Node, budget: Budget) -> list[Incompatibility]:
    """Return the reasons as found. Raises :class:`NoVerdictError` and :class:`~.contract.Exhausted`."""
    return run(_Comparison(budget).compare(reader, writer, _ROOT))


def no_verdict(error: NoVerdictError) -> Difference:
    """Return the difference that stands for a comparison without a result."""
    return Difference("UNEXPECTED_EXCEPTION", "", f"Unexpected exception during compatibility check: {error}")


def difference(found: Incompatibility, reader_is: Literal["new", "old"]) -> Difference:
    """Return a reason in Confluent's words."""
    writer_is = "old" if reader_is == "new" else "new"
    path = found.position.path()
    description = _DESCRIPTIONS[found.type].format(
        path=path, info=found.info, reader=reader_is, writer=writer_is
    )
    text = f"{{errorType:'{found.type}', description:'{description}', additionalInfo:'{found.info}'}}"
    return Difference(found.type, path, text)


def _is_promotable(reader: Node, writer: Node) -> bool:
    return reader.kind == writer.kind or writer.kind in _PROMOTIONS.get(reader.kind, ())


class _Comparison:
    """One comparison of two schemas. It keeps results: recursion ends, and shared types are compared once."""

    __slots__ = ("_branches", "_budget", "_fields", "_verdicts")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._verdicts: dict[tuple[int, int], list[Incompatibility] | None] = {}
        self._fields: dict[int, dict[str, Field]] = {}
        self._branches: dict[int, dict[str, list[Node]]] = {}

    def compare(self, reader: Node, writer: Node, position: _SchemaPath) -> Walk[list[Incompatibility]]:
        if type(reader) is Primitive and type(writer) is Primitive:
            return [] if _is_promotable(reader, writer) else [_mismatch(reader, writer, position)]
        self._budget.spend()
        # Only named types of the reader can recur; an unnamed one is reached once from each place.
        if type(reader) is Union or type(reader) is Array or type(reader) is Map or type(reader) is Primitive:
            judged: list[Incompatibility] = yield self._judge(reader, writer, position)
            return judged
        key = (id(reader), id(writer))
        if key in self._verdicts:
            # A pair without a result is being compared further up; it counts as compatible until a difference
            # is found.
            return self._verdicts[key] or []
        if len(self._verdicts) >= MAX_PAIRS:
            raise NoVerdictError(f"more than {MAX_PAIRS} pairs of types to compare")
        self._verdicts[key] = None
        found: list[Incompatibility] = yield self._judge(reader, writer, position)
        self._verdicts[key] = found
        return found

    def _judge(self, reader: Node, writer: Node, position: _SchemaPath) -> Walk[list[Incompatibility]]:
        found: list[Incompatibility]
        if type(writer) is Union and type(reader) is Union:
            found = yield self._unions(reader, writer, position)
        elif type(writer) is Union:
            found = yield self._every_branch(reader, writer, position)
        elif type(reader) is Union:
            found = yield self._some_branch(reader, writer, position)
        elif type(reader) is Record and type(writer) is Record:
            found = _names(reader, writer, position)
            if not (found and self._is_hasty()):
                found += yield self._records(reader, writer, position)
        elif type(reader) is Enum and type(writer) is Enum:
            found = _names(reader, writer, position) + _symbols(reader, writer, position)
        elif type(reader) is Fixed and type(writer) is Fixed:
            found = _names(reader, writer, position) + _sizes(reader, writer, position)
        elif type(reader) is Array and type(writer) is Array:
            found = yield self.compare(reader.items, writer.items, _SchemaPath(position, "items"))
        elif type(reader) is Map and type(writer) is Map:
            found = yield self.compare(reader.values, writer.values, _SchemaPath(position, "values"))
        else:
            found = [_mismatch(reader, writer, position)]
        return found

    def _unions(self, reader: Union, writer: Union, position: _SchemaPath) -> Walk[list[Incompatibility]]:
        found = []
        for index, branch in enumerate(writer.branches):
            if (yield self.compare(reader, branch, _ROOT)):
                found.append(_lacking(reader, branch, _SchemaPath(position, str(index))))
        return found

    def _every_branch(
        self, reader: Node, writer: Union, position: _SchemaPath
    ) -> Walk[list[Incompatibility]]:
        found: list[Incompatibility] = []
        for index, branch in enumerate(writer.branches):
            _extend(found, (yield self.compare(reader, branch, _SchemaPath(position, str(index)))))
        return found

    def _some_branch(self, reader: Union, writer: Node, position: _SchemaPath) -> Walk[list[Incompatibility]]:
        for branch in self._candidates(reader, writer) if self._is_hasty() else reader.branches:
            if not (yield self.compare(branch, writer, _ROOT)):
                return []
        return [_lacking(reader, writer, position)]

    def _is_hasty(self) -> bool:
        return len(self._verdicts) > THOROUGH_PAIRS

    def _candidates(self, reader: Union, writer: Node) -> list[Node]:
        """Return the branches that may read ``writer``, judging by their names."""
        branches = self._branches.get(id(reader))
        if branches is None:
            branches = self._branches[id(reader)] = {}
            for branch in reader.branches:
                for name in _readable_names(branch):
                    branches.setdefault(name, []).append(branch)
        if type(writer) is Record or type(writer) is Enum or type(writer) is Fixed:
            by_name = branches.get(f".{writer.name.simple}", [])
            return by_name + [
                branch for branch in branches.get(writer.name.full, []) if branch not in by_name
            ]
        return branches.get("", [])

    def _records(self, reader: Record, writer: Record, position: _SchemaPath) -> Walk[list[Incompatibility]]:
        self._budget.spend(len(reader.fields) // 4)
        found: list[Incompatibility] = []
        fields = _SchemaPath(position, "fields")
        for index, field in enumerate(reader.fields):
            written = self._find_writer_field(field, index, writer)
            if written is None:
                if field.default is not MISSING:
                    continue
                here = _SchemaPath(fields, str(index))
                if type(field.type) is Enum and field.type.default is not None:
                    mismatch = _mismatch(field.type, writer, _SchemaPath(here, "type"))
                    found.append(mismatch._replace(reader=field))
                else:
                    found.append(
                        Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", here, field.name, field, writer)
                    )
            elif field.type is not written.type or field.type.text is None:
                here = _SchemaPath(_SchemaPath(fields, str(index)), "type", (field, written))
                _extend(found, (yield self.compare(field.type, written.type, here)))
        return found

    def _find_writer_field(self, field: Field, index: int, writer: Record) -> Field | None:
        """Return the writer's field that ``field`` reads, found by name or alias."""
        fields = self._fields.get(id(writer))
        if fields is None:
            fields = self._fields[id(writer)] = {item.name: item for item in writer.fields}
        written = fields.get(field.name)
        if not field.aliases:
            return written
        matches = [] if written is None else [written]
        matches += [fields[alias] for alias in field.aliases if alias in fields]
        if len(matches) > 1:
            what = f"{field.name} type:{field.type.kind.upper()} pos:{index}"
            raise NoVerdictError(
                f"Reader record field {what} matches multiple fields in writer record schema"
                f" {canonical_text(writer, ())}"
            )
        return matches[0] if matches else None


def _readable_names(branch: Node) -> list[str]:
    """Return the names that a readable type may have: simple after a dot, full, or none at all."""
    if type(branch) is Record or type(branch) is Enum or type(branch) is Fixed:
        return [f".{branch.name.simple}", *(alias.full for alias in branch.aliases)]
    return [""]


def _extend(found: list[Incompatibility], more: list[Incompatibility]) -> None:
    found.extend(more[: MAX_DIFFERENCES - len(found)])


def _mismatch(reader: Node, writer: Node, position: _SchemaPath) -> Incompatibility:
    info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
    return Incompatibility("TYPE_MISMATCH", position, info, reader, writer)


def _lacking(reader: Node, writer: Node, position: _SchemaPath) -> Incompatibility:
    info = f"reader union lacking writer type: {writer.kind.upper()}"
    return Incompatibility("MISSING_UNION_BRANCH", position, info, reader, writer)


def _names(reader: Named, writer: Named, position: _SchemaPath) -> list[Incompatibility]:
    """Compare names without their namespaces; a reader's alias must be the writer's full name."""
    if reader.name.simple == writer.name.simple:
        return []
    for alias in reader.aliases:
        if alias.full == writer.name.full and (alias.space is not None or reader.name.space is None):
            return []
    expected = f"expected: {writer.name.full}"
    return [Incompatibility("NAME_MISMATCH", _SchemaPath(position, "name"), expected, reader, writer)]


def _symbols(reader: Enum, writer: Enum, position: _SchemaPath) -> list[Incompatibility]:
    missing = set(writer.symbols).difference(reader.symbols)
    if not missing or (reader.default is not None and reader.default in reader.symbols):
        return []
    listed = f"[{', '.join(sorted(missing))}]"
    return [Incompatibility("MISSING_ENUM_SYMBOLS", _SchemaPath(position, "symbols"), listed, reader, writer)]


def _sizes(reader: Fixed, writer: Fixed, position: _SchemaPath) -> list[Incompatibility]:
    if reader.size == writer.size:
        return []
    info = f"expected: {writer.size}, found: {reader.size}"
    return [Incompatibility("FIXED_SIZE_MISMATCH", _SchemaPath(position, "size"), info, reader, writer)]
