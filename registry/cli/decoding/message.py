"""Decoding of a message's payload with the schema that it was written with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from registry.domain.model import DEFAULT_TYPE
from registry.domain.schemas import FORMATS, Dependency, InvalidSchema, Schema

from .frame import CannotDecode, Decoded, Frame, Options, printable_json

# The registry refuses schemas with more references.
_REFERENCES_MAX: Final = 1000

# Reads what follows the name of a schema in a message; raises CannotDecode.
Read = Callable[[bytes], object]

# The registry's answer about a schema by its id, by its GUID, or by a version of a subject.
Answer = Mapping[str, Any]


class WriterSchema(NamedTuple):
    """A schema by its type and text; ``dependencies`` hold what it refers to, dependencies first."""

    type: str
    text: str
    dependencies: tuple[Dependency, ...] = ()


def parse_schema(schema: WriterSchema) -> Any:
    """Return a schema as its format parses it. Raises ``InvalidSchema``."""
    return FORMATS[schema.type].parse(schema.text, schema.dependencies)


def resolved_text(schema: WriterSchema) -> str:
    """Return a text that contains what the schema refers to. Raises ``InvalidSchema``."""
    text: str = parse_schema(schema).text_in("resolved")
    return text


def writer_schema(found: Answer, version: Callable[[str, int], Answer]) -> WriterSchema:
    """Return the schema in the answer ``found``; ``version`` asks for a version of a subject.

    Raises :class:`CannotDecode` for an answer that no registry gives, and what ``version`` raises.
    """
    type_ = found.get("schemaType") or DEFAULT_TYPE
    if type_ not in FORMATS or not FORMATS[type_].about.decoder:
        raise CannotDecode(f"messages with schemas of the type {type_} cannot be decoded")
    return WriterSchema(type_, _text(found), tuple(_dependencies(found, version)))


def _dependencies(found: Answer, version: Callable[[str, int], Answer]) -> Iterator[Dependency]:
    """Yield what a schema refers to, each after its own references."""
    seen: set[tuple[str, int]] = set()
    # Answers that are being walked, each with its name and the references that are left.
    walk = [("", found, iter(_references(found)))]
    while walk:
        name, answer, references = walk[-1]
        following = next((each for each in references if each[1:] not in seen), None)
        if following is None:
            walk.pop()
            if walk:
                yield Dependency(name, _text(answer))
            continue
        inner, subject, number = following
        seen.add((subject, number))
        if len(seen) > _REFERENCES_MAX:
            raise CannotDecode(f"the schema refers to more than {_REFERENCES_MAX} others")
        answer = version(subject, number)
        walk.append((inner, answer, iter(_references(answer))))


def _references(found: Answer) -> list[tuple[str, str, int]]:
    try:
        return [(str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in found.get("references") or ()]  # fmt: skip
    except (TypeError, KeyError, ValueError):
        raise CannotDecode("the registry's answer has references without name, subject and version") from None


def _text(found: Answer) -> str:
    text = found.get("schema")
    if not isinstance(text, str):
        raise CannotDecode("the registry's answer has no schema")
    return text


class MessageDecoder:
    """Decodes messages that were written with one schema."""

    def __init__(self, schema: WriterSchema, options: Options = Options()) -> None:  # noqa: B008 (immutable)
        """Raise :class:`CannotDecode` if the schema cannot be used."""
        try:
            parsed = FORMATS[schema.type].parse(schema.text, schema.dependencies)
            self._decode = _decoder(parsed, schema, options)
        except InvalidSchema as error:
            raise CannotDecode(f"the schema cannot be used: {error}") from None
        except RecursionError:
            raise CannotDecode("the schema cannot be used: it is nested too deeply") from None

    def decode(self, frame: Frame) -> Decoded:
        """Return the message as JSON. Raises :class:`CannotDecode`."""
        try:
            found = self._decode(frame)
            return found._replace(json=printable_json(found.json))
        except RecursionError:
            raise CannotDecode("the message is nested too deeply") from None


def _decoder(parsed: Schema, schema: WriterSchema, options: Options) -> Callable[[Frame], Decoded]:
    # Each format's libraries are loaded only if it occurs.
    module = import_module(f"{__package__}.{FORMATS[schema.type].about.decoder}")
    make: Callable[..., Callable[[Frame], Decoded]] = module.decoder
    return make(parsed, schema.dependencies, options)
