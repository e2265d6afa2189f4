"""The requests that count as asking for a schema, and the messages in which counts of askers travel.

A request *asks* for a schema if it fetches it by id, guid, or subject and version or metadata, looks it up,
or registers it. Clients remember what they have fetched, mostly for as long as they run, so the count says
who has asked and when, not how many messages were read.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from registry.domain.errors import RegistryError
from registry.domain.model import DEFAULT_CONTEXT, ID_MAX, VERSION_MAX, Subject

from .request_target import in_context, parse

_BY_ID, _BY_GUID = "/schemas/ids/{id}", "/schemas/guids/{guid}"
_VERSION = "/subjects/{subject}/versions/{version}"
# Methods and routes of the requests that ask.
ASKING: Final = frozenset(
    {
        *(("GET", route) for route in (_BY_ID, f"{_BY_ID}/schema", _BY_GUID, _VERSION, f"{_VERSION}/schema")),
        # The version that has some metadata, which serializers can be configured to use.
        ("GET", "/subjects/{subject}/metadata"),
        ("POST", "/subjects/{subject}"),
        ("POST", "/subjects/{subject}/versions"),
    }
)
# The latest version, the one with some metadata, or the one whose text was sent.
NO_VERSION: Final = 0
AGENT_CHARACTERS_MAX: Final = 80
_OF_SUBJECT: Final = "subject "
_DIGITS = re.compile(r"[0-9]{1,10}", re.ASCII)
# Most paths, which need no decoding.
_PLAIN = re.compile(
    rb"/(?:schemas/ids/([0-9]{1,9})(?:/schema)?"
    rb"|subjects/([A-Za-z0-9._-]+)(?:/versions(?:/([a-z0-9]+)(?:/schema)?)?)?)"
)
_EPOCH = date(1970, 1, 1)


class Asker(NamedTuple):
    """A sender of requests: a principal, or without authentication an address; and its user agent."""

    principal: str
    address: str
    agent: str
    # Of the principal: a user and a token with the same name are two.
    kind: str = ""


class Thing(NamedTuple):
    """A schema by id or guid, or a subject with a version, that is asked for.

    ``name``: as :func:`of_id`, :func:`of_guid` and :func:`of_subject` print it.
    """

    name: str
    version: int = NO_VERSION


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """Requests of one asker for one thing, from the ``first`` to the ``last`` day, counted from 1970 on."""

    asker: Asker
    thing: Thing
    first: int
    last: int
    requests: int


class Asks(msgspec.Struct, frozen=True):
    """The counts of one process since it last handed them over."""

    day: int
    asks: list[Ask]
    # Requests that were too many to be counted by asker and thing.
    other: int = 0


class LocalAsks(msgspec.Struct, frozen=True):
    """The counts of one node, of some things."""

    asks: list[Ask]
    since: int
    other: int = 0
    more: int = 0


class AskersOf(msgspec.Struct, frozen=True):
    """A question about a subject, by its qualified name, or about the schema with an id in a context."""

    subject: str = ""
    context: str = DEFAULT_CONTEXT
    schema_id: int = 0


class Askers(msgspec.Struct, frozen=True, kw_only=True):
    """The askers of a subject or schema, on all nodes."""

    # What is asked for is given as a version of the subject; of a schema's id it is always ``NO_VERSION``.
    asks: list[Ask]
    # The first day that all nodes have counted; ``None``: nothing is counted.
    since: int | None
    # Requests of that time that were not counted by asker and thing, and so may be some of these.
    other: int = 0
    # Askers that are not in ``asks``, because there are too many.
    more: int = 0
    # URLs of the nodes that did not answer.
    missing: list[str] = []


def today() -> int:
    """Return the current day (UTC), counted from 1970 on."""
    return (datetime.now(UTC).date() - _EPOCH).days


def day_text(day: int) -> str:
    """Return a day such as 2026-01-31."""
    return (_EPOCH + timedelta(days=day)).isoformat()


def of_id(context: str, schema_id: int) -> str:
    """Return the name of a schema by its id."""
    return f"id {schema_id} {context}"


def of_guid(guid: UUID) -> str:
    """Return the name of a schema by its guid."""
    return f"guid {guid}"


def of_subject(subject: Subject) -> str:
    """Return the name of a subject."""
    return f"{_OF_SUBJECT}{subject.qualified}"


def subject_of(name: str) -> Subject | None:
    """Return the subject that has this name; ``None`` if it is that of an id or guid."""
    return Subject.parse(name.removeprefix(_OF_SUBJECT)) if name.startswith(_OF_SUBJECT) else None


def thing_asked(target: bytes) -> Thing | None:
    """Return what a request that asks has asked for, by its target; ``None`` if it is nothing."""
    path, _, query = target.partition(b"?")
    plain = None if b"subject=" in query else _PLAIN.fullmatch(path)
    if plain is not None:
        number, subject, version = plain.groups()
        if number is not None:
            return Thing(of_id(DEFAULT_CONTEXT, int(number)))
        return Thing(
            f"{_OF_SUBJECT}{subject.decode()}", _version(version.decode()) if version else NO_VERSION
        )
    try:
        # A context qualifies the subject and the id of such a request whatever its method is.
        segments, pairs = in_context("GET", parse(path, query))
        match segments:
            case ("schemas", "ids", number, *_) if _DIGITS.fullmatch(number) and int(number) <= ID_MAX:
                scope = Subject.parse(dict(reversed(pairs)).get("subject", ""))
                return Thing(of_id(scope.context, int(number)))
            case ("schemas", "guids", guid, *_):
                return Thing(of_guid(UUID(guid)))
            case ("subjects", name, "versions", version, *_):
                return Thing(of_subject(Subject.parse(name)), _version(version))
            case ("subjects", name, *_):
                return Thing(of_subject(Subject.parse(name)))
    except (RegistryError, ValueError):
        pass
    return None


def _version(text: str) -> int:
    number = int(text) if _DIGITS.fullmatch(text) else NO_VERSION
    return number if number <= VERSION_MAX else NO_VERSION
