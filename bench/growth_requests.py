"""The logs that bench/growth.py measures, and the requests that it sends to them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench import lists
from registry.domain.log_format.records import Entry, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject
from registry.domain.schemas import FORMATS

Ask = tuple[str, str, dict[str, object] | None]


class Kind(NamedTuple):
    """A kind of request."""

    name: str
    # The request with a number of its own.
    ask: Callable[[int], Ask]


class Axis(NamedTuple):
    """The growing quantity: the schemas, one in each subject, or the subjects of one id."""

    name: str
    records: Callable[[int], Iterator[Entry]]
    kinds: Callable[[int], list[Kind]]
    lists: Callable[[int], list[str]]
    # The id of all subjects.
    shared_id: int | None = None


def schema(name: str, own: str = "own") -> str:
    """Return a record of six fields."""
    fields = [{"name": f"field{at}", "type": ["null", "string"], "default": None} for at in range(5)]
    fields.append({"name": own, "type": ["null", "long"], "default": None})  # type: ignore[dict-item]
    return orjson.dumps({"type": "record", "name": name, "namespace": "bench", "fields": fields}).decode()


_CANONICAL = FORMATS["AVRO"].parse(schema("NAME", "OWN")).canonical


def version(subject: str, number: int, schema_id: int, name: str, own: str = "own") -> Entry:
    """Return the record of a version."""
    of = Subject.parse(subject)
    text = _CANONICAL.replace("NAME", name).replace("OWN", own)
    return Entry(schema_key(of, number), schema_value(of, number, schema_id, text))


# --- schemas, each the first version of its subject


def schemas_records(count: int) -> Iterator[Entry]:
    return (version(f"subject-{number:07d}", 1, number + 1, f"R{number}") for number in range(count))


def schemas_kinds(count: int) -> list[Kind]:
    def subject(number: int) -> str:
        return f"/subjects/subject-{number * 7919 % count:07d}"

    def body_of(number: int, own: str = "own") -> dict[str, object]:
        return {"schema": schema(f"R{number * 7919 % count}", own)}

    def fresh(number: int) -> dict[str, object]:
        return {"schema": schema(f"N{number}")}

    last = max(0, count - 10)
    return [
        Kind("by id", lambda n: ("GET", f"/schemas/ids/{n * 7919 % count + 1}", None)),
        Kind("latest", lambda n: ("GET", f"{subject(n)}/versions/latest", None)),
        Kind("look up", lambda n: ("POST", subject(n), body_of(n))),
        Kind("register again", lambda n: ("POST", f"{subject(n)}/versions", body_of(n))),
        Kind("check", lambda n: ("POST", f"/compatibility{subject(n)}/versions/latest", body_of(n, "new"))),
        Kind("register, next version", lambda n: ("POST", f"{subject(n)}/versions", body_of(n, f"new{n}"))),
        Kind("register, new subject", lambda n: ("POST", f"/subjects/new-{n}/versions", fresh(n))),
        Kind("10 subjects, first", lambda _: ("GET", "/subjects?limit=10", None)),
        Kind("10 subjects, last", lambda _: ("GET", f"/subjects?offset={last}&limit=10", None)),
        Kind("10 schemas, first", lambda _: ("GET", "/schemas?limit=10", None)),
        Kind("10 schemas, last", lambda _: ("GET", f"/schemas?offset={last}&limit=10", None)),
        Kind("delete a subject", lambda n: ("DELETE", f"/subjects/new-{n}", None)),
    ]  # fmt: skip


# --- subjects of one id


def subjects_records(count: int) -> Iterator[Entry]:
    return (version(f"shared-{number:07d}", 1, 1, "Shared") for number in range(count))


def subjects_kinds(count: int) -> list[Kind]:
    shared: dict[str, object] = {"schema": schema("Shared")}
    of_id, page = "/schemas/ids/1", f"offset={max(0, count - 10)}&limit=10"
    return [
        Kind("by id", lambda _: ("GET", of_id, None)),
        Kind("latest", lambda n: ("GET", f"/subjects/shared-{n * 7919 % count:07d}/versions/latest", None)),
        Kind("look up", lambda n: ("POST", f"/subjects/shared-{n * 7919 % count:07d}", shared)),
        Kind("register, new subject", lambda n: ("POST", f"/subjects/zz-{n}/versions", shared)),
        Kind("10 subjects of the id, first", lambda _: ("GET", f"{of_id}/subjects?limit=10", None)),
        Kind("10 subjects of the id, last", lambda _: ("GET", f"{of_id}/subjects?{page}", None)),
        Kind("10 versions of the id", lambda _: ("GET", f"{of_id}/versions?limit=10", None)),
        Kind("delete a subject", lambda n: ("DELETE", f"/subjects/zz-{n}", None)),
        Kind("delete it for good", lambda n: ("DELETE", f"/subjects/zz-{n}?permanent=true", None)),
    ]  # fmt: skip


AXES = (
    Axis("schemas", schemas_records, schemas_kinds, lists.targets),
    Axis("subjects", subjects_records, subjects_kinds, lambda _: lists.targets_of_id(1), 1),
)
