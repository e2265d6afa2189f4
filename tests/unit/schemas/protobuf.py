"""Protobuf's schema type, and random files of it."""

from __future__ import annotations

import random

from registry.domain.schemas import Dependency
from registry.domain.schemas.protobuf.format import ProtobufFormat
from registry.domain.schemas.protobuf.schema import ProtobufSchema

PROTOBUF = ProtobufFormat()

_SCALARS = ["string", "bytes", "bool", "int32", "sint64", "fixed32", "float", "double"]
_KEYS = ["string", "int32", "bool", "fixed64"]
_KNOWN = ["google.protobuf.Timestamp", ".google.type.Money", "confluent.type.Decimal"]
_IMPORTS = [
    f'import "{path}";'
    for path in ("google/protobuf/timestamp.proto", "google/type/money.proto", "confluent/type/decimal.proto")
]
_STRINGS = ['"a"', "'it''s'", '"\\"q\\" \\n\\t\\\\ \\101\\x42"', '"é" "\\a"', "''"]
_NUMBERS = ["0", "-1", "0x1F", "1.50", "1e3", "inf", "-inf"]


def parse(text: str, references: dict[str, str] | None = None, *, new: bool = False) -> ProtobufSchema:
    """Return the schema; ``references`` are the texts by import path, dependencies first."""
    dependencies = [Dependency(name, each) for name, each in (references or {}).items()]
    return PROTOBUF.parse(text, dependencies, new=new)


class Files:
    """Makes one valid file from a number; with ``edits``, one that differs from it in a few places.

    ``custom``: with options of which no extension is known, and some of Confluent's.
    """

    def __init__(self, seed: int, edits: int = 0, *, custom: bool = True) -> None:
        self._custom = custom
        self.rng = random.Random(seed)
        self._edits = random.Random(f"{seed}/{edits}")
        self._edited = edits
        self._types = ["T0"]

    def _other(self, text: str, choices: list[str]) -> str:
        return self._edits.choice(choices) if self._edited and self._edits.random() < 0.1 else text

    def text(self) -> str:
        """Return the text, with comments and blanks in odd places."""
        types = [self._type(f"T{at}", 0) for at in range(self.rng.randrange(1, 4))]
        parts = ['syntax = "proto3";', "package a.b ;", *_IMPORTS, *self._options("option ", ";"), *types]
        if self.rng.random() < 0.3:
            parts.append(
                "service S { rpc R ( stream T0 ) returns ( .a.b.T0 ) { option deprecated = true ; } }"
            )
        return self.rng.choice([" ", "\n", " /* x */ ", " // x\n"]).join(parts)

    def _type(self, name: str, depth: int) -> str:
        if depth and self.rng.random() < 0.3:
            return self._enum(name)
        nested = [f"{name}N{at}" for at in range(self.rng.randrange(3))] if depth < 3 else []
        members = [self._type(each, depth + 1) for each in nested]
        tags = iter(self.rng.sample(range(1, 60), 30))
        members += [self._field(f"f{at}", next(tags)) for at in range(self.rng.randrange(5))]
        if self.rng.random() < 0.4:
            fields = [self._single(f"o{at}", next(tags)) for at in range(self.rng.randrange(1, 4))]
            members.append(f"oneof {self._other('choice', ['other'])} {{ {' '.join(fields)} }}")
        if self.rng.random() < 0.3:
            members.append(f"reserved {next(tags)}, 100 to 110, 1000 to max; reserved 'gone';")
        members += self._options("option ", ";")
        members = [each for each in members if not (self._edited and self._edits.random() < 0.05)]
        self.rng.shuffle(members)
        return f"message {name} {{ {' '.join(members)} }}"

    def _enum(self, name: str) -> str:
        tags = self.rng.sample(range(1, 9), self.rng.randrange(4))
        constants = [f"{name}_{tag} = {self._other(str(tag), ['10', '11'])};" for tag in tags]
        return f"enum {name} {{ {name}_Z = 0; {' '.join(constants)} }}"

    def _field(self, name: str, tag: int) -> str:
        if self.rng.random() < 0.2:
            return f"map<{self.rng.choice(_KEYS)}, {self._named()}> {name} = {tag};"
        label = self._other(self.rng.choice(["", "", "optional ", "repeated "]), ["", "repeated "])
        return label + self._single(name, tag)

    def _single(self, name: str, tag: int) -> str:
        options = ", ".join(self._options("", ""))
        shown = f" [{options}]" if options else ""
        return f"{self._named()} {self._other(name, [f'{name}_new'])} = {tag}{shown};"

    def _named(self) -> str:
        return self._other(self.rng.choice([*_SCALARS, *_SCALARS, *_KNOWN, "T0", "b.T0"]), _SCALARS)

    def _options(self, start: str, end: str) -> list[str]:
        if not self._custom:
            return [f"{start}deprecated = true{end}"] if self.rng.random() < 0.2 else []
        names = self.rng.sample(["(x.y)", "(confluent.field_meta).doc", "(z).deep.er"], 3)
        return [
            f"{start}{name} = {self._value(0)}{end}" for name in names[: max(0, self.rng.randrange(-4, 3))]
        ]

    def _value(self, depth: int, *, in_list: bool = False) -> str:
        kind = self.rng.randrange(5 if depth < 3 else 3)
        if kind == 3 and not in_list:
            values = [self._value(depth + 1, in_list=True) for _ in range(self.rng.randrange(4))]
            return f"[{', '.join(values)}]"
        if kind >= 3:
            members = [f"{name}: {self._value(depth + 1)}" for name in "abab"[: self.rng.randrange(5)]]
            return "{" + self.rng.choice([" ", ", "]).join(members) + "}"
        return self.rng.choice([_STRINGS, _NUMBERS, ["true", "CONSTANT"]][kind])
