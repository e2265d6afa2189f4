"""Messages of JSON Schema: JSON as it was written, and what its schema objects to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final
from urllib.parse import urljoin

import msgspec
import orjson
import re2
from jsonschema import ValidationError
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY
from referencing import Resource
from referencing.exceptions import Unresolvable

from registry.base.processes.time_limit import time_limit
from registry.domain.schemas import Dependency, Schema
from registry.domain.schemas.json_schema.drafts import draft_of
from registry.domain.schemas.json_schema.format import JsonSchema

from .frame import CannotDecode, Decoded, Frame, Options, SchemaName
from .message import Read, WriterSchema, parse_schema

_OBJECTIONS_MAX: Final = 20
_OBJECTION_CHARACTERS_MAX: Final = 300


def decoder(
    schema: Schema, dependencies: Sequence[Dependency], options: Options
) -> Callable[[Frame], Decoded]:
    """Return the function that decodes messages written with ``schema``."""
    assert isinstance(schema, JsonSchema)
    validator = _validator(schema, dependencies) if options.validate else None

    def decode(frame: Frame) -> Decoded:
        try:
            # Numbers keep their digits, which a value in memory might not.
            line = msgspec.json.format(frame.payload.decode(), indent=-1)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CannotDecode(f"the message is not JSON: {error}") from None
        if validator is None:
            return Decoded(line)
        return Decoded(line, tuple(_objections(validator, frame.payload, options.validate_s)))

    return decode


def _validator(schema: JsonSchema, dependencies: Sequence[Dependency]) -> Any:
    schema.check()
    draft = draft_of(schema.value)
    base = schema.value.get(draft.id_keyword, "") if type(schema.value) is dict else ""
    resources = [
        (name, Resource.from_contents(orjson.loads(each.text), default_specification=draft.specification))
        for each in dependencies
        for name in dict.fromkeys((each.name, urljoin(base, each.name)))
    ]
    known: Any = REGISTRY.with_resources(resources)
    bounded = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": partial(
            _additional_properties, draft.validator.VALIDATORS["additionalProperties"]
        ),
    }
    return extend(draft.validator, bounded)(schema.value, registry=known)


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Compare a text with a pattern in bounded time; a pattern of a richer language is not compared."""
    if isinstance(value, str) and (compiled := _compile(pattern)) and not compiled.search(value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Compare the members that patterns name, in the same way."""
    for pattern, expected in patterns.items() if isinstance(value, dict) else ():
        compiled = _compile(pattern)
        for name in filter(compiled.search, value) if compiled else ():
            yield from validator.descend(value[name], expected, path=name, schema_path=pattern)


def _additional_properties(
    compare: Callable[..., Iterable[ValidationError] | None],
    validator: Any,
    allowed: Any,
    value: Any,
    schema: Any,
) -> Iterator[ValidationError]:
    """Compare the members that neither a name nor a pattern covers, in the same way."""
    patterns = [_compile(pattern) for pattern in schema.get("patternProperties", ())]
    if isinstance(value, dict) and all(patterns):
        named = schema.get("properties", ())
        more = {
            name: each
            for name, each in value.items()
            if name not in named and not any(pattern.search(name) for pattern in patterns)
        }
        yield from compare(validator, allowed, more, {}) or ()


@lru_cache
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def _objections(validator: Any, payload: bytes, limit_s: float) -> Iterator[str]:
    """Yield what the schema objects to in the message."""
    try:
        with time_limit(limit_s, TimeoutError()):
            found = list(islice(validator.iter_errors(json.loads(payload)), _OBJECTIONS_MAX))
        for error in found:
            message = error.message
            if len(message) > _OBJECTION_CHARACTERS_MAX:
                message = f"{message[:_OBJECTION_CHARACTERS_MAX]}…"
            yield f"{error.json_path}: {message}"
    except TimeoutError:
        yield f"the message cannot be compared with its schema within {limit_s:g} s"
    except Unresolvable as error:
        yield f"cannot compare the message with its schema: {error}"
    except re.error as error:
        # Of unevaluatedProperties, which are compared by Python's own patterns.
        yield f"cannot compare the message with its schema: a pattern is not understood: {error}"
    except ValueError:
        yield "cannot compare the message with its schema: a number has too many digits"


def rereader(reader: WriterSchema, writer: WriterSchema, validate_s: float) -> Read:
    """Return what validates messages with ``reader``; raises :class:`CannotDecode`."""
    decode = decoder(parse_schema(reader), reader.dependencies, Options(validate=True, validate_s=validate_s))

    def read(data: bytes) -> object:
        found = decode(Frame(SchemaName(0), None, data))
        if found.warnings:
            raise CannotDecode(found.warnings[0])
        return found

    return read
