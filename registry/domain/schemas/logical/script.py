"""Reading DDL as logical types: the inverse of :mod:`.ddl` (``format=logical``, Confluent 8.4).

As in Confluent's server, a fault of syntax counts before all others, wherever it is. ``CHECK`` is refused:
its expressions are compiled for Confluent's serializers only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from registry.domain.schemas.contract import Budget, InvalidSchema
from registry.domain.schemas.trampoline import Walk, run

from .literals import Literal, default_value
from .reading import check_depth
from .tokens import Tokens
from .types import (
    BYTES,
    MISSING,
    NO_NOTES,
    STRING,
    VARIANT,
    Array,
    External,
    Field,
    Kind,
    Leaf,
    Map,
    Notes,
    Script,
    Shape,
    Struct,
    Type,
    parent_of,
)  # fmt: skip

_PLAIN: Final[Mapping[str, Leaf]] = {
    **{
        each: Leaf(Kind(each))
        for each in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DATE")
    },
    "INTEGER": Leaf(Kind.INT),
    "REAL": Leaf(Kind.FLOAT),
    "DOUBLE": Leaf(Kind.DOUBLE),
    "STRING": STRING,
    "BYTES": BYTES,
    "VARIANT": VARIANT,
}
# Types with a length or a precision, and what it is if it is not given.
_SIZED: Final[Mapping[str, tuple[Kind, int]]] = {
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC"), (Kind.DECIMAL, 10)),
    **dict.fromkeys(("CHAR", "CHARACTER"), (Kind.CHAR, 1)),
    "VARCHAR": (Kind.VARCHAR, 1),
    "BINARY": (Kind.BINARY, 1),
    "VARBINARY": (Kind.VARBINARY, 1),
    "TIME": (Kind.TIME, 0),
    "TIMESTAMP": (Kind.TIMESTAMP, 6),
    "TIMESTAMP_LTZ": (Kind.TIMESTAMP_LTZ, 6),
}
_VARYING: Final = {Kind.CHAR: Kind.VARCHAR, Kind.BINARY: Kind.VARBINARY}
_MOMENTS: Final = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
_FRACTION_MAX: Final = 9
_INT_MAX: Final = 2**31 - 1
_INT_DIGITS: Final = 10
# The marks around fields and branches.
_BRACKETS: Final = {"<": ">", "(": ")"}
_NUMBER, _ALIASES = "protobuf.field.number", "avro.aliases"
_NUMBER_MAX: Final = 2**29 - 1
_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_SHOWN_MAX: Final = 200


# Parts of a name with dots.
_PARTS_MAX: Final = 256
# Characters of a name that cost a step.
_STEP: Final = 20
T = TypeVar("T")


def read(text: str, budget: Budget) -> Script:
    """Return what a text declares. Raises :class:`InvalidSchema`, and :class:`.contract.Exhausted`."""
    return _Reader(text, budget).script()


class _Reader:
    def __init__(self, text: str, budget: Budget) -> None:
        self._tokens = Tokens(text, budget)
        self._budget = budget
        self._namespace = ""
        self._imports: dict[str, str] = {}
        self._declared: dict[str, Struct | Leaf] = {}
        # The full names of declarations, by the position of their first token.
        self._names: dict[int, str] = {}
        self._externals: dict[str, External] = {}
        # By the name of a declared type, the declared types that it uses; by "", those that the root uses.
        self._uses: dict[str, dict[str, None]] = {"": {}}
        self._owner = ""
        # The first fault that is not one of syntax.
        self._fault: InvalidSchema | None = None

    def script(self) -> Script:
        tokens = self._tokens
        if tokens.take("NAMESPACE"):
            self._namespace = tokens.full_name()
            tokens.need(";")
        while tokens.take("USING"):
            self._read_import()
        self._declare()
        while tokens.sees("STRUCT") or tokens.sees("ROW") or tokens.sees("ENUM"):
            self._read_declaration()
            if not tokens.take(";"):
                break
        root = None
        self._owner = ""
        if tokens.take("TYPE"):
            root = run(self._type(0))
            tokens.take(";")
        if tokens.next.kind != "end":
            raise tokens.mismatch("<EOF>" if root or self._declared else "STRUCT", "TYPE")
        if self._fault is None:
            root = self._infer() if root is None else self._check_root(root)
            self._check_imports()
        if self._fault is not None:
            raise self._fault
        assert root is not None
        return Script(root, self._declared, self._namespace, self._imports)

    def _refuse(self, message: str) -> None:
        """Remember a fault, unless there is an earlier one; faults of syntax may follow, and count more."""
        if self._fault is None:
            self._fault = InvalidSchema(message)

    def _read_import(self) -> None:
        tokens = self._tokens
        tokens.need("TYPE")
        name = tokens.full_name()
        tokens.need("FOR")
        uri = tokens.string()
        tokens.need(";")
        if name in self._imports:
            self._refuse(f"Duplicate USING TYPE: {name} (each alias FQN may be declared at most once)")
        elif not uri.strip():
            self._refuse(f"USING TYPE {name} FOR clause must be a non-empty URI")
        self._imports[name] = uri

    def _declare(self) -> None:
        """Make the types that the statements declare, without their contents, so that all can be named."""
        tokens, start = self._tokens, self._tokens.at
        begins = True
        with suppress(InvalidSchema):  # a fault of syntax, which is met again
            for at in range(start, len(tokens.all)):
                if begins and tokens.all[at].word in ("STRUCT", "ROW", "ENUM"):
                    tokens.at = at + 1
                    self._names[at] = self._qualify(tokens.full_name())
                    self._make(self._names[at], is_enum=tokens.all[at].word == "ENUM")
                begins = tokens.all[at].word == ";"
        tokens.at = start

    def _make(self, name: str, *, is_enum: bool) -> None:
        if name in self._declared:
            self._refuse(f"Duplicate named type: {name}")
            return
        parent, expected = parent_of(name, self._declared), name.rpartition(".")[0]
        if parent and parent != expected:
            self._refuse(
                f"Nested type '{name}' has no immediate parent. Found ancestor '{parent}' but missing "
                f"'{expected}'. Declare '{expected}' first."
            )
        self._uses[name] = {}
        self._declared[name] = self._enum(name) if is_enum else Struct(name)

    def _read_declaration(self) -> None:
        tokens = self._tokens
        begin = tokens.at
        is_enum = tokens.need("STRUCT", "ROW", "ENUM") == "ENUM"
        written = tokens.full_name()
        # Later declarations change what a namespace does to a name with dots.
        self._owner = self._names.get(begin) or self._qualify(written)
        if is_enum:
            self._enum(self._owner)
            return
        struct = self._declared[self._owner]
        tokens.need("(")
        fields = run(self._fields(")", 1, is_union=False))
        notes, _ = self._notes(with_tags=True)
        # Not true of an enum or an earlier struct of the same name, which are faults already.
        if isinstance(struct, Struct) and not struct.fields:
            struct.fields += fields
            struct.notes = notes

    def _enum(self, name: str) -> Leaf:
        tokens = self._tokens
        tokens.need("(")
        symbols: dict[str, Notes] = {}
        while True:
            symbol = tokens.string()
            self._check_name(symbol, "Enum symbol")
            if symbol in symbols:
                self._refuse(f"Duplicate enum symbol: {_cut(symbol)}")
            symbols[symbol], _ = self._notes(with_tags=False)
            if tokens.need(",", ")") == ")":
                break
        own, _ = self._notes(with_tags=False)
        all_notes = (own, *symbols.values())
        found = all_notes if any(each != NO_NOTES for each in all_notes) else ()
        return Leaf(Kind.ENUM, symbols=tuple(symbols), name=name, notes=found)

    def _fields(self, end: str, depth: int, *, is_union: bool) -> Walk[list[Field]]:
        tokens = self._tokens
        fields: dict[str, Field] = {}
        kind = "Union branch" if is_union else "Field"
        while True:
            self._refuse_check()
            field: Field = yield self._field(kind, depth)
            if field.name in fields:
                self._refuse(f"Duplicate {kind.lower()}: {_cut(field.name)}")
            fields[field.name] = field
            if tokens.need(",", end) == end:
                return [*fields.values()]

    def _field(self, kind: str, depth: int) -> Walk[Field]:
        tokens = self._tokens
        name = tokens.name()
        self._check_name(name, kind)
        of: Type = yield self._type(depth)
        default = MISSING
        is_branch = kind != "Field"
        if not is_branch and tokens.take("DEFAULT"):
            default = self._default(of.shape)
        if not is_branch:
            self._refuse_check()
        notes, reserved = self._notes(with_tags=not is_branch)
        aliases = tuple(filter(None, (each.strip() for each in reserved.get(_ALIASES, "").split(","))))
        return Field(name, of, default, aliases, self._number(reserved.get(_NUMBER)), notes)

    def _number(self, text: str | None) -> int:
        if text is None:
            return 0
        number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
        if not 1 <= number <= _NUMBER_MAX:
            self._refuse(f"{_NUMBER} must be a number from 1 to {_NUMBER_MAX}, got '{_cut(text)}'")
        return number

    def _refuse_check(self) -> None:
        tokens = self._tokens
        if tokens.sees("CHECK") or tokens.sees("CONSTRAINT"):
            raise InvalidSchema(
                f"CHECK constraint at {tokens.place(tokens.next)}: CHECK is not supported; "
                "write a rule in the request's ruleSet"
            )

    def _default(self, shape: Shape) -> object:
        literal = self._literal()
        try:
            return default_value(shape, literal)
        except InvalidSchema as error:
            self._refuse(str(error))
            return None

    def _literal(self) -> Literal:
        tokens = self._tokens
        begin = tokens.at
        if tokens.take("-") and tokens.next.kind != "number":
            raise tokens.mismatch("INT_LITERAL", "DECIMAL_LITERAL", "DOUBLE_LITERAL")
        token = tokens.next
        kind = {"TRUE": "boolean", "FALSE": "boolean", "NULL": "null"}.get(token.word, token.kind)
        if token.word in ("TIMESTAMP", "INTERVAL"):
            tokens.at += 1
            tokens.string()
            if token.word == "INTERVAL":
                tokens.name()
            kind = "other"
        elif kind in ("number", "string", "bytes", "boolean", "null"):
            tokens.at += 1
        else:
            raise tokens.mismatch("a literal")
        text = "".join(each.text for each in tokens.all[begin : tokens.at])
        return Literal(kind, text, token.value)

    def _type(self, depth: int) -> Walk[Type]:
        self._budget.spend()
        check_depth(depth)
        tokens = self._tokens
        found = Type((yield self._shape(depth)), self._nullability())
        while tokens.sees("ARRAY") or tokens.sees("MULTISET"):
            depth += 1
            check_depth(depth)
            is_multiset = tokens.need("ARRAY", "MULTISET") == "MULTISET"
            found = Type(Array(found, is_multiset), self._nullability())
        return found

    def _nullability(self) -> bool:
        if self._tokens.take("NOT"):
            self._tokens.need("NULL")
            return False
        self._tokens.take("NULL")
        return True

    def _shape(self, depth: int) -> Walk[Shape]:
        tokens = self._tokens
        word = tokens.next.word
        if word in ("STRUCT", "ROW", "UNION"):
            tokens.at += 1
            end = _BRACKETS[tokens.need("<", "(")]
            struct = Struct(is_union=word == "UNION")
            struct.fields += yield self._fields(end, depth + 1, is_union=struct.is_union)
            return struct
        if word in ("ARRAY", "MULTISET", "MAP") and tokens.sees(word, "<"):
            tokens.take(word, "<")
            first: Type = yield self._type(depth + 1)
            found: Shape = Array(first, word == "MULTISET")
            if word == "MAP":
                tokens.need(",")
                found = Map(first, (yield self._type(depth + 1)))
            tokens.need(">")
            return found
        if word in _SIZED:
            tokens.at += 1
            return self._leaf_with_size(word)
        if word in _PLAIN:
            tokens.at += 1
            if word == "DOUBLE":
                tokens.take("PRECISION")
            return _PLAIN[word]
        if not tokens.next.is_name:
            raise tokens.mismatch("a type")
        return self._resolve(tokens.full_name())

    def _leaf_with_size(self, word: str) -> Leaf:
        tokens = self._tokens
        kind, size = _SIZED[word]
        if word in ("CHARACTER", "BINARY") and tokens.take("VARYING"):
            kind = _VARYING[kind]
        scale = None
        if tokens.take("("):
            size = self._parameter(size)
            if kind is Kind.DECIMAL and tokens.take(","):
                scale = self._parameter(0)
            tokens.need(")")
        if word == "TIMESTAMP" and not tokens.take("WITHOUT", "TIME", "ZONE"):
            kind = Kind.TIMESTAMP_LTZ if tokens.take("WITH", "LOCAL", "TIME", "ZONE") else kind
        if kind in _MOMENTS and not 0 <= size <= _FRACTION_MAX:
            self._refuse(f"{kind} precision must be in [0, {_FRACTION_MAX}], got {size}")
        return Leaf(kind, size, scale)

    def _parameter(self, missing: int) -> int:
        """Return a length or the like; -1 stands for the default."""
        tokens = self._tokens
        is_negative = tokens.take("-")
        token = tokens.next
        if token.kind != "number" or not token.text.isdigit():
            raise tokens.mismatch("INT_LITERAL")
        tokens.at += 1
        number = int(token.text) if len(token.text) <= _INT_DIGITS else _INT_MAX + 1
        if number > _INT_MAX or (is_negative and number > 1):
            sign = "-" if is_negative else ""
            self._refuse(f"Type parameter at {tokens.place(token)} is out of range: {sign}{_cut(token.text)}")
        return missing if is_negative and number else number

    def _resolve(self, written: str) -> Shape:
        name = self._qualify(written)
        found = self._declared.get(name)
        if found is None:
            return self._externals.setdefault(name, External(name))
        self._uses[self._owner][name] = None
        return found

    def _qualify(self, name: str) -> str:
        """Return a name with the namespace, which dotted names get only below a declared type."""
        parts = name.count(".") + 1
        if parts > _PARTS_MAX:
            raise InvalidSchema(f"Names have at most {_PARTS_MAX} parts")
        self._budget.spend(parts * (1 + (len(self._namespace) + len(name)) // _STEP))
        if "" in name.split("."):
            self._refuse("Type name must not be empty")
        if not self._namespace or name.startswith(f"{self._namespace}."):
            return name
        whole = f"{self._namespace}.{name}"
        if "." not in name or parent_of(name, self._declared):
            return whole
        # A declared type that the namespace itself begins with makes no prefix.
        return whole if len(parent_of(whole, self._declared)) > len(self._namespace) else name

    def _notes(self, *, with_tags: bool) -> tuple[Notes, dict[str, str]]:
        """Take comment, tags and parameters; return those that are reserved for a format apart."""
        tokens = self._tokens
        comment = ""
        tags: tuple[str, ...] = ()
        params: dict[str, str] = {}
        if tokens.take("COMMENT") or tokens.next.kind == "string":
            comment = tokens.string()
        if with_tags and tokens.take("TAGS"):
            tokens.need("(")
            tags = tuple(self._items(tokens.string))
        if tokens.take("WITH"):
            tokens.need("(")
            params = dict(self._items(self._pair))
        own = {key: value for key, value in params.items() if not key.startswith(("avro.", "protobuf."))}
        return Notes(comment, tags, tuple(own.items())), params

    def _items(self, read: Callable[[], T]) -> Iterator[T]:
        while True:
            yield read()
            if self._tokens.need(",", ")") == ")":
                return

    def _pair(self) -> tuple[str, str]:
        key = self._tokens.string()
        self._tokens.need("=")
        return key, self._tokens.string()

    def _check_name(self, name: str, kind: str) -> None:
        if not name:
            self._refuse(f"{kind} name must not be empty")
        elif _BLANK.search(name):
            self._refuse(
                f"{kind} name must not contain whitespace or control characters; got: '{_cut(name)}'"
            )

    def _infer(self) -> Type | None:
        """Return the declared type that no other uses, or the union of all such types."""
        if not self._declared:
            self._refuse(
                "No type to register. Add a 'STRUCT <name> (...)' or 'ENUM <name> (...)' declaration (which "
                "the script will auto-register) or a trailing 'TYPE <typeExpr>' statement."
            )
            return None
        used = {name for user, names in self._uses.items() for name in names if name != user}
        roots = [each for each in self._declared if each not in used and not parent_of(each, self._declared)]
        if not roots:
            cycle = " -> ".join(_cycle(self._uses))
            self._refuse(
                f"Cannot infer the type to register: dependency cycle among defined types: {cycle}. "
                "Add an explicit trailing 'TYPE <name>' statement."
            )
            return None
        if len(roots) == 1:
            return Type(self._declared[roots[0]])
        union = Struct(is_union=True)
        union.fields += (Field(each.rpartition(".")[2], Type(self._declared[each])) for each in roots)
        return Type(union)

    def _check_root(self, root: Type) -> Type:
        shape = root.shape
        name = shape.name if isinstance(shape, Struct | Leaf) else ""
        top = name
        while parent := parent_of(top, self._declared):
            top = parent
        if top != name:
            self._refuse(f"Cannot register nested type '{name}' as the root; register '{top}' instead.")
        return root

    def _check_imports(self) -> None:
        shadowed = [each for each in self._imports if each in self._declared]
        if shadowed:
            self._refuse(
                "USING TYPE declared for name(s) that are also locally declared as STRUCT/ENUM — a USING "
                "TYPE attaches a URI to an external reference, so it must not collide with a local "
                "declaration: "
                f"[{', '.join(shadowed)}]"
            )
        unused = [each for each in self._imports if each not in self._externals]
        if unused:
            self._refuse(
                "USING TYPE declared for name(s) that aren't referenced by any local type or by the root — "
                f"externals are inferred from usage, so an unused USING TYPE has no effect: "
                f"[{', '.join(unused)}]"
            )


def _cycle(uses: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the types of a cycle, the first one again at the end; a type in itself is none."""
    seen: set[str] = set()
    for start in uses:
        seen.add(start)
        path: dict[str, Iterator[str]] = {start: iter(uses[start])}
        while path:
            last = next(reversed(path))
            name = next(path[last], None)
            if name is None:
                del path[last]
            elif name in path and name != last:
                names = [*path]
                return [*names[names.index(name) :], name]
            elif name not in seen:
                seen.add(name)
                path[name] = iter(uses[name])
    return []


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
