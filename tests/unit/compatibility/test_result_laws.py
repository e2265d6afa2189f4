"""Laws of compatibility results over random schemas and random edits, the same for every format."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.domain.commands import Register
from registry.domain.compatibility import subject_check
from registry.domain.log_format.subject_values import LEVELS
from registry.domain.schemas import FORMATS, InvalidSchema
from tests.unit.schemas.protobuf import Files
from tests.unit.schemas.test_avro_properties import built as avro
from tests.unit.schemas.test_json_schema_properties import built as json_schema
from tests.unit.schemas.test_json_schema_properties import edited as json_edited
from tests.unit.small_registry import SmallRegistry

SEEDS = st.integers(0, 2**32)
Pair = tuple[str, str]


def avro_pair(seed: int, edits: int) -> Pair:
    rng, edited = random.Random(edits), avro(seed)
    for fields in list(field_lists(edited)):
        for _ in range(rng.randrange(3)):
            if fields and rng.random() < 0.5:
                del fields[rng.randrange(len(fields))]
            else:
                name = f"new_{rng.randrange(1000)}"
                fields.append({"name": name, "type": "int"} | ({"default": 1} if rng.random() < 0.5 else {}))
    return json.dumps(avro(seed)), json.dumps(edited)


def field_lists(schema: Any) -> Iterator[list[Any]]:
    if isinstance(schema, dict) and isinstance(schema.get("fields"), list):
        yield schema["fields"]
    if isinstance(schema, dict | list):
        for each in schema.values() if isinstance(schema, dict) else schema:
            yield from field_lists(each)


def json_pair(seed: int, edits: int) -> Pair:
    return json.dumps(json_schema(seed)), json.dumps(json_edited(json_schema(seed), random.Random(edits)))


def protobuf_pair(seed: int, edits: int) -> Pair:
    return Files(seed).text(), Files(seed, 1 + edits).text()


PAIRS: dict[str, Callable[[int, int], Pair]] = {
    "AVRO": avro_pair, "JSON": json_pair, "PROTOBUF": protobuf_pair,
}  # fmt: skip


def is_sound(schema_type: str, text: str) -> bool:
    try:
        return bool(FORMATS[schema_type].parse(text, new=True).canonical)
    except InvalidSchema:
        return False


def verdicts(schema_type: str, old: str, new: str) -> dict[str, bool]:
    """Return, by level, whether ``new`` may follow ``old``."""
    small = SmallRegistry()
    small.register("s", old, schema_type=schema_type)
    found = {}
    for level in LEVELS:
        small.level("s", level)
        request = Register("s", new, schema_type=schema_type)
        answer = small.parser.run(
            subject_check.answer(
                small.view,
                small.parser.memory,
                small.configured("s"),
                request,
                None,
                small.defaults,
                verbose=False,
            )
        )
        found[level] = json.loads(answer)["is_compatible"]
    return found


@pytest.mark.parametrize("schema_type", PAIRS)
@settings(max_examples=60)
@given(seed=SEEDS, edits=SEEDS)
def test_verdicts_obey_the_levels(schema_type: str, seed: int, edits: int) -> None:
    first, second = PAIRS[schema_type](seed, edits)
    if not (is_sound(schema_type, first) and is_sound(schema_type, second)):
        return
    there, back = verdicts(schema_type, first, second), verdicts(schema_type, second, first)
    assert (there["FORWARD"], back["FORWARD"]) == (back["BACKWARD"], there["BACKWARD"])
    for each in (there, back):
        assert each["NONE"]
        assert each["FULL"] == (each["BACKWARD"] and each["FORWARD"])
        for level in ("BACKWARD", "FORWARD", "FULL"):
            assert each[f"{level}_TRANSITIVE"] == each[level]


@pytest.mark.parametrize("schema_type", PAIRS)
@settings(max_examples=60)
@given(seed=SEEDS)
def test_every_schema_is_compatible_with_itself_at_every_level(schema_type: str, seed: int) -> None:
    text, _ = PAIRS[schema_type](seed, 0)
    if is_sound(schema_type, text):
        assert all(verdicts(schema_type, text, text).values())
