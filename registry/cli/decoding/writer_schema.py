"""The schema that a message was written with, and everything that it refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from registry.domain.model import DEFAULT_TYPE
from registry.domain.schemas import FORMATS, Dependency

from .errors import CannotDecode

# The registry refuses schemas with more references.
_REFERENCES_MAX: Final = 1000

# The registry's answer about a schema by its id, by its GUID, or by a version of a subject.
Answer = Mapping[str, Any]


class WriterSchema(NamedTuple):
    """A schema by its type and text; ``dependencies`` hold what it refers to, dependencies first."""

    type: str
    text: str
    dependencies: tuple[Dependency, ...] = ()


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
