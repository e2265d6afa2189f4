"""Laws of the Avro parser over random schemas, and its results compared with those of the ``avro`` package.

A schema is made from a number, so that hypothesis has little to draw; a failure's number makes it again.
"""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import avro.errors
import avro.schema
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.schemas import FORMATS, InvalidSchema

AVRO = FORMATS["AVRO"]
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
SPACES = ["", "a", "a.b", "other"]
TEXTS = ["", "a", "é", "\x1f\x7f", '"\\', "\U0001f600", "two words", "\u2028/"]
SCALARS = [None, True, 0, 1, -1, 2**31, 2**63 - 1, -(2**63), 1.5, -0.0, 1e10, 1e-5, 123456.789, *TEXTS]
SEEDS = st.integers(0, 2**32)
NOTHING = object()


class Builder:
    """Makes one schema; every named type has a name of its own, and later types may refer to earlier ones."""

    def __init__(self, rng: random.Random, sound: bool) -> None:
        self.rng = rng
        self.sound = sound
        self.count = 0
        self.defined: list[str] = []

    def schema(self, depth: int = 0) -> Any:
        kinds: list[Callable[[int], Any]] = [self.primitive, self.primitive, self.annotated, self.reference]
        if depth < 4:
            kinds += [self.record, self.record, self.enum, self.fixed, self.array, self.map, self.union]
        return self.rng.choice(kinds)(depth)

    def value(self, depth: int = 0) -> Any:
        kind = self.rng.randrange(8) if depth < 3 else 7
        if kind == 0:
            return [self.value(depth + 1) for _ in range(self.rng.randrange(3))]
        if kind == 1:
            return {text: self.value(depth + 1) for text in self.rng.sample(TEXTS, self.rng.randrange(3))}
        return self.rng.choice(SCALARS)

    def primitive(self, _: int) -> Any:
        return self.rng.choice(PRIMITIVES)

    def annotated(self, _: int) -> Any:
        return {"type": self.rng.choice(["int", "long", "string"]), "note": self.value()}

    def reference(self, _: int) -> Any:
        return self.rng.choice([*self.defined, "int"])

    def array(self, depth: int) -> Any:
        return {"type": "array", "items": self.schema(depth + 1)}

    def map(self, depth: int) -> Any:
        return {"type": "map", "values": self.schema(depth + 1)}

    def union(self, depth: int) -> Any:
        branches: list[Any] = self.rng.sample(PRIMITIVES, self.rng.randrange(1, 4))
        branches += [self.rng.choice([self.record, self.enum, self.array])(depth + 1)]
        self.rng.shuffle(branches)
        return branches

    def named(self, kind: str) -> tuple[dict[str, Any], str]:
        self.count += 1
        name, space = f"T{self.count}", self.rng.choice(SPACES)
        node = {"type": kind, "name": name, "namespace": space}
        if self.rng.random() < 0.2:
            node["doc"] = self.rng.choice(TEXTS)
        return node, f"{space}.{name}" if space else name

    def enum(self, _: int) -> Any:
        node, full = self.named("enum")
        node["symbols"] = self.rng.sample("ABCDE", self.rng.randrange(1, 5))
        if self.rng.random() < 0.2:
            node["default"] = node["symbols"][0]
        self.defined.append(full)
        return node

    def fixed(self, _: int) -> Any:
        node, full = self.named("fixed")
        node["size"] = self.rng.randrange(20)
        self.defined.append(full)
        return node

    def record(self, depth: int) -> Any:
        node, full = self.named("record")
        names = self.rng.sample("abcdefg", self.rng.randrange(5))
        node["fields"] = [self.field(name, depth) for name in names]
        self.defined.append(full)
        return node

    def field(self, name: str, depth: int) -> dict[str, Any]:
        field: dict[str, Any] = {"name": name, "type": self.schema(depth + 1)}
        if self.rng.random() < 0.4:
            field["default"] = self.default(field["type"]) if self.sound else self.value()
        if field.get("default") is NOTHING:
            del field["default"]
        if self.rng.random() < 0.15:
            field["order"] = self.rng.choice(["ascending", "descending", "ignore"])
        if self.rng.random() < 0.15:
            field["aliases"] = self.rng.sample("vwxyz", 2)
        if self.rng.random() < 0.15:
            field["note"] = self.value()
        return field

    def default(self, node: Any) -> Any:
        kind = node if isinstance(node, str) else "union" if isinstance(node, list) else node["type"]
        ready: dict[str, Any] = {
            "null": None, "boolean": True, "int": 1, "long": 2**40, "float": 1.5, "double": -0.0,
            "bytes": "\u00ff", "string": "é", "array": [], "map": {}, "fixed": "x" * 20,
        }  # fmt: skip
        if kind == "union":
            return self.default(node[0])
        if kind == "enum":
            return node["symbols"][0] if isinstance(node, dict) else NOTHING
        return ready.get(kind, NOTHING)


def built(seed: int, *, sound: bool = True) -> Any:
    return Builder(random.Random(seed), sound).schema()


def shuffled(value: Any, rng: random.Random) -> Any:
    """Return the same JSON with the members of each object in another order, except among properties."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: value[key] if key in {"default", "note"} else shuffled(value[key], rng) for key in keys}
    return [shuffled(element, rng) for element in value] if isinstance(value, list) else value


@given(SEEDS)
def test_the_canonical_text_is_a_fixed_point(seed):
    canonical = AVRO.parse(json.dumps(built(seed)), new=True).canonical

    assert AVRO.parse(canonical, new=True).canonical == canonical


@given(SEEDS)
def test_the_normal_form_is_a_fixed_point(seed):
    normalized = AVRO.parse(json.dumps(built(seed))).normalized

    assert AVRO.parse(normalized).canonical == normalized
    assert AVRO.parse(normalized).normalized == normalized


@given(SEEDS)
def test_the_order_of_attributes_means_nothing(seed):
    schema = built(seed)
    one, other = AVRO.parse(json.dumps(schema)), AVRO.parse(json.dumps(shuffled(schema, random.Random(seed))))

    assert one.canonical == other.canonical
    assert one.equivalent(other)
    assert other.equivalent(one)


@given(SEEDS, SEEDS)
def test_equal_texts_and_equivalence_agree(one, other):
    first, second = AVRO.parse(json.dumps(built(one))), AVRO.parse(json.dumps(built(other)))

    assert first.equivalent(second) == (first.canonical == second.canonical)


@given(SEEDS)
def test_a_schema_reads_its_own_data(seed):
    text = json.dumps(built(seed))

    assert AVRO.differences(AVRO.parse(text), AVRO.parse(text), "new") == []


@given(SEEDS, SEEDS)
def test_comparisons_end_and_say_why(one, other):
    reader, writer = (AVRO.parse(json.dumps(built(seed))) for seed in (one, other))
    for difference in AVRO.differences(reader, writer, "old"):
        assert difference.text.startswith(f"{{errorType:'{difference.type}', description:'")
        assert f"'{difference.path}'" in difference.text


@given(SEEDS)
def test_what_is_valid_when_new_is_valid_and_the_same_when_stored(seed):
    text = json.dumps(built(seed, sound=False))

    assert verdict(text) in {None, verdict(text, new=False)}


@given(st.text())
def test_any_text_is_parsed_or_refused(text):
    assert verdict(text) != ""


@given(SEEDS)
def test_any_json_is_parsed_or_refused(seed):
    assert verdict(json.dumps(damaged(random.Random(seed)))) != ""


def verdict(text: str, *, new: bool = True) -> str | None:
    """Return the canonical text of a valid schema, None for an invalid one."""
    try:
        return AVRO.parse(text, new=new).canonical
    except InvalidSchema:
        return None


DAMAGES = [None, 1, True, 1.5, "x-y", "1", "", [], {}, ["int", "int"], "string", ["A", "A"]]


def damaged(rng: random.Random) -> Any:
    """Return a schema with one of its parts replaced or taken away."""
    schema = Builder(rng, sound=False).schema()
    parts = [item for item in walked(schema) if isinstance(item, dict) and item]
    if parts:
        part = rng.choice(parts)
        key = rng.choice(sorted(part))
        if rng.random() < 0.3:
            del part[key]
        else:
            part[key] = rng.choice(DAMAGES)
    return schema


def walked(value: Any) -> Iterator[Any]:
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walked(item)


def package_accepts(schema: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            avro.schema.parse(json.dumps(schema))
        except (avro.errors.AvroException, AttributeError, KeyError, TypeError, ValueError):
            return False
    return True


def says_nothing(item: Any) -> bool:
    """Return true if the ``avro`` package and Java are known to disagree about ``item``."""
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    return any(
        (
            # The package checks few defaults, and no names of fields. It rejects an enum's default that is
            # not a string, which Java drops.
            "default" in item and (kind != "enum" or not isinstance(item["default"], str)),
            kind not in ("record", "enum", "fixed") and not str(item.get("name", "x")).isidentifier(),
            # The package reads {"type": {…}} and {"type": […]} as the inner schema, where Java expects a
            # string.
            "name" not in item and not isinstance(kind, str),
            # The package is lax about attributes of the wrong type, which Java drops or rejects.
            any(not isinstance(item.get(key, "x"), str) for key in ("doc", "namespace", "order", "name")),
            not is_list_of_texts(item.get("aliases", [])),
            not is_list_of_texts(item.get("symbols", [])),
            type(item.get("size", 1)) is not int,
            # The package and Java each have their own rules for orders and namespaces.
            str(item.get("order", "ignore")) not in {"ascending", "descending", "ignore"},
            re.fullmatch(r"[A-Za-z_.]*", str(item.get("namespace") or "")) is None,
            # The package takes an empty name for no name.
            item.get("name") == "",
        )
    )


def is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


@given(SEEDS)
def test_the_verdict_is_that_of_the_avro_package_where_that_is_as_strict_as_java(seed):
    schema = damaged(random.Random(seed))
    if any(says_nothing(item) for item in walked(schema)):
        return

    assert (verdict(json.dumps(schema)) is not None) == package_accepts(schema)
