"""Laws over random JSON schemas, valid and hostile ones.

A schema is made from a number, so that hypothesis has little to draw; a failure's number makes it again.
"""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from registry.domain.commands import Register
from registry.domain.compatibility import subject_check
from registry.domain.schemas import FORMATS, Budget, Exhausted, InvalidSchema
from registry.domain.schemas.json_schema.compatibility import compare
from tests.unit.small_registry import SmallRegistry

JSON = FORMATS["JSON"]
SEEDS = st.integers(0, 2**32)
DRAFTS = [
    None,
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
TYPES = ["string", "integer", "number", "boolean", "null", "object", "array"]
NAMES = ["a", "b", "c", "é", "$ref x", "😀", ""]
SCALARS = [None, True, False, 0, 1, -1, 2**70, 1.5, 1.0, 1e300, "a", "", "\x1f", "\U0001f600"]


class Builder:
    """Makes one schema of a draft, whose definitions refer to each other."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.draft = rng.choice(DRAFTS)
        self.is_old = self.draft is not None and "draft-04" in self.draft
        self.is_modern = self.draft is not None and "/draft/" in self.draft

    def document(self) -> Any:
        schema = self.schema(0)
        if type(schema) is bool:
            return schema
        schema["definitions"] = {name: self.schema(1) for name in ("a", "b", "c")}
        if self.draft is not None:
            schema["$schema"] = self.draft
        return schema

    def schema(self, depth: int) -> Any:
        pick = self.rng.randrange
        if depth and not self.is_old and pick(12) == 0:
            return self.rng.random() < 0.5
        if depth and pick(6) == 0:
            return {"$ref": f"#/definitions/{self.rng.choice('abc')}"}
        schema: dict[str, Any] = {}
        for _ in range(self.rng.randrange(1, 5)):
            schema.update(self.keyword(depth))
        return schema

    def keyword(self, depth: int) -> dict[str, Any]:
        rng, size = self.rng, self.rng.randrange(4)
        flat = [
            lambda: {"type": rng.choice(TYPES)},
            lambda: {"type": rng.choice(TYPES)},
            lambda: {"type": rng.sample(TYPES, 2)},
            lambda: {"enum": rng.sample(SCALARS, size)},
            lambda: {rng.choice(["title", "description", "format", "pattern"]): rng.choice(["a", "b"])},
            lambda: {"default": rng.choice(SCALARS)},
            lambda: {"const": rng.choice(SCALARS)},
            lambda: {rng.choice(["maxLength", "minLength", "maxItems", "minItems", "maxProperties"]): size},
            lambda: {rng.choice(["maximum", "minimum", "multipleOf"]): rng.choice([1, 2, 2.5, 1e2])},
            lambda: {"uniqueItems": rng.random() < 0.5},
            lambda: {"required": rng.sample(NAMES, size)},
        ]
        if depth >= 4:
            return rng.choice(flat)()
        below = lambda: self.schema(depth + 1)  # noqa: E731
        listed = lambda: [below() for _ in range(rng.randrange(1, 4))]  # noqa: E731
        nested = [
            lambda: {"properties": {name: below() for name in rng.sample(NAMES, size)}},
            lambda: {"properties": {name: below() for name in rng.sample(NAMES, size)}, "type": "object"},
            lambda: {"patternProperties": {rng.choice(["^a", "b$", "(", "."]): below()}},
            lambda: {"additionalProperties": rng.choice([True, False, below()])},
            lambda: {rng.choice(["allOf", "anyOf", "oneOf"]): listed()},
            lambda: {rng.choice(["allOf", "anyOf", "oneOf"]): listed()},
            lambda: {"not": below()},
            lambda: {"items": below()},
            lambda: {"prefixItems" if self.is_modern else "items": listed()},
            lambda: {rng.choice(["if", "then", "else", "contains", "propertyNames"]): below()},
        ]
        if self.is_modern:
            nested += [
                lambda: {rng.choice(["unevaluatedProperties", "unevaluatedItems"]): below()},
                lambda: {"dependentRequired": {"a": rng.sample(NAMES, size)}},
                lambda: {"dependentSchemas": {"a": below()}},
            ]
        else:
            nested += [
                lambda: {"additionalItems": rng.choice([True, False, below()])},
                lambda: {"dependencies": {"a": rng.choice([["b"], below()])}},
            ]
        return rng.choice(flat + nested)()


def built(seed: int) -> Any:
    return Builder(random.Random(seed)).document()


def parsed(value: Any) -> Any:
    return JSON.parse(json.dumps(value), new=True)


def sound(seed: int) -> Any:
    """Return a random schema, or none if references go in circles or the draft rejects it."""
    try:
        return parsed(built(seed))
    except InvalidSchema:
        return None


def edited(value: Any, rng: random.Random) -> Any:
    """Return the value with one place changed."""
    if rng.random() < 0.3 or not isinstance(value, dict | list) or not value:
        return rng.choice(
            [*SCALARS, {}, [], {"type": "string"}, ["a"], {"$ref": "#"}, {"a": {}}, [{}], "#/x"]
        )
    if isinstance(value, list):
        index = rng.randrange(len(value))
        return [*value[:index], edited(value[index], rng), *value[index + 1 :]]
    name = rng.choice(sorted(value))
    if rng.random() < 0.2:
        return {each: value[each] for each in value if each != name}
    return {**value, name: edited(value[name], rng)}


def test_most_random_schemas_are_sound():
    assert sum(sound(seed) is not None for seed in range(200)) > 140


@given(SEEDS)
def test_texts_are_fixed_points(seed):
    schema = JSON.parse(json.dumps(built(seed)))
    for text in (schema.canonical, schema.normalized):
        assert JSON.parse(text).canonical == text
        assert JSON.parse(text).normalized == schema.normalized
    assert json.loads(schema.canonical) == built(seed)


@given(SEEDS)
def test_every_schema_reads_its_own_data(seed):
    one, other = sound(seed), sound(seed)
    if one is None:
        return
    assert JSON.differences(one, one, "new") == []
    assert JSON.differences(one, other, "old") == []
    assert JSON.differences(JSON.parse(one.normalized), one, "new") == []


@given(SEEDS, SEEDS)
def test_differences_are_the_changes_that_are_not_harmless(seed, edits):
    rng = random.Random(edits)
    old = sound(seed)
    try:
        new = parsed(edited(built(seed), rng) if rng.random() < 0.7 else built(edits))
    except InvalidSchema:
        return
    if old is None:
        return
    found = compare(old.node(), new.node(), Budget())
    assert found.compatible is not bool(JSON.differences(new, old, "new"))
    for each in JSON.differences(new, old, "new"):
        assert each.path.startswith("#/")
        assert each.text.startswith(f'{{errorType:"{each.type}", description:"')


def is_compatible(small: SmallRegistry, request: Register) -> bool:
    body = small.parser.run(
        subject_check.answer(
            small.view,
            small.parser.memory,
            small.configured(request.subject),
            request,
            None,
            small.defaults,
            verbose=False,
        )
    )
    return bool(json.loads(body)["is_compatible"])


@given(SEEDS, SEEDS)
def test_forward_is_backward_swapped_and_checks_agree_with_registrations(seed, other_seed):
    rng = random.Random(other_seed)
    first, second = json.dumps(built(seed)), json.dumps(edited(built(seed), rng))
    if sound(seed) is None:
        return
    try:
        JSON.parse(second, new=True)
    except InvalidSchema:
        return
    verdicts = {}
    for level in ("BACKWARD", "FORWARD", "FULL"):
        for old, new in ((first, second), (second, first)):
            small = SmallRegistry()
            small.register("s", old, schema_type="JSON")
            small.level("s", level)
            verdicts[level, old] = is_compatible(small, Register("s", new, schema_type="JSON"))
            if JSON.parse(old).canonical != JSON.parse(new).canonical:
                command = Register("s", new, schema_type="JSON")
                if verdicts[level, old]:
                    assert small.submit(command)["version"] == 2
                else:
                    assert small.refusal(command)[0] == 40901
    assert verdicts["FORWARD", first] == verdicts["BACKWARD", second]
    assert verdicts["FORWARD", second] == verdicts["BACKWARD", first]
    both = verdicts["BACKWARD", first] and verdicts["FORWARD", first]
    assert verdicts["FULL", first] == verdicts["FULL", second] == both


@given(SEEDS)
def test_hostile_schemas_are_refused_in_plain_words(seed):
    rng = random.Random(seed)
    value = built(seed)
    for _ in range(rng.randrange(1, 6)):
        value = edited(value, rng)
    text = json.dumps(value)
    if rng.random() < 0.2:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(['"', "}", "\\", "\x00", "[", "1e", "NaN"]) + text[at + 1 :]
    other = JSON.parse('{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}')
    for new in (True, False):
        try:
            schema = JSON.parse(text, new=new)
            schema.field_names()
            assert schema.normalized
            JSON.differences(schema, other, "new", Budget(20_000))
            JSON.differences(other, schema, "old", Budget(20_000))
        except (InvalidSchema, Exhausted):
            continue
