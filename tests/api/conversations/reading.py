"""Conversations read from text; README.md describes the format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*): (.*)")
_STATUS = re.compile(r"(\d{3})(?: (.*))?")
_ERROR = re.compile(r"(\d{3,5}) (.+)")
_OF_VERSION = re.compile(r"(.+) \((\d+\.\d+)\)")

Headers = list[tuple[str, str]]
# Settings by name, one value each.
Choice = dict[str, str]


@dataclass
class Answer:
    """An expected answer; without an error code, ``body`` describes the body."""

    status: int
    code: int | None = None
    message: str = ""
    headers: Headers = field(default_factory=list)
    body: str = ""


@dataclass
class Exchange:
    """A request and the answer to it."""

    # File and line.
    place: str
    method: str
    target: str
    headers: Headers
    body: str
    encoding: str
    answer: Answer


@dataclass
class Conversation:
    """Exchanges with one registry, which is empty at the beginning."""

    title: str
    # The conversation runs once with each of them.
    settings: list[Choice]
    exchanges: list[Exchange] = field(default_factory=list)


def of_version(body: Any, version: str) -> Any:
    """Return an expected body with those of its members that answers have with this ``confluent_version``."""
    if isinstance(body, list):
        return [of_version(each, version) for each in body]
    if not isinstance(body, dict):
        return body
    found = {}
    for name, value in body.items():
        match = _OF_VERSION.fullmatch(name)
        if match is None or match[2] == version:
            found[name if match is None else match[1]] = of_version(value, version)
    return found


def conversations(path: Path) -> Iterator[Conversation]:
    """Read the conversations of a file. Raises ``ValueError`` with the position of the first error."""
    common: dict[str, list[str]] = {}
    found: Conversation | None = None
    own: dict[str, list[str]] = {}
    block: list[tuple[str, str]] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        place = f"{path.name}:{number}"
        if block is not None:
            if line != "```":
                block.append((place, line))
                continue
            if found is None:
                raise ValueError(f"{place}: a block before the first conversation")
            found.exchanges += _exchanges(block)
            block = None
        elif line == "```http":
            block = []
        elif line.startswith("## "):
            if found is not None:
                yield found
            own = dict(common)
            found = Conversation(line.removeprefix("## "), _choices(own))
        elif line.startswith("Settings: "):
            given = common if found is None else own
            given |= _settings(place, line)
            if found is not None:
                found.settings = _choices(own)
    if block is not None:
        raise ValueError(f"{path.name}: the last block does not end")
    if found is not None:
        yield found


def _settings(place: str, line: str) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {}
    for each in line.removeprefix("Settings: ").split(";"):
        name, equals, values = each.partition("=")
        if not equals:
            raise ValueError(f"{place}: not NAME = VALUE: {each.strip()}")
        given[name.strip()] = [value.strip() for value in values.split("|")]
    return given


def _choices(given: dict[str, list[str]]) -> list[Choice]:
    return [dict(zip(given, values, strict=True)) for values in product(*given.values())]


def _exchanges(block: list[tuple[str, str]]) -> Iterator[Exchange]:
    part: list[tuple[str, str]] = []
    for place, line in [*block, ("", "")]:
        if line.strip():
            part.append((place, line))
        elif part:
            yield _exchange(part)
            part = []


def _exchange(lines: list[tuple[str, str]]) -> Exchange:
    place, first = lines[0]
    method, _, target = first.partition(" ")
    if method not in METHODS or not target.startswith(("/", "http", "*")):
        raise ValueError(f"{place}: not METHOD /TARGET: {first}")
    rest = [line for _, line in lines[1:] if not line.startswith("released: ")]
    at = next((number for number, line in enumerate(rest) if line.startswith("=> ")), None)
    if at is None:
        raise ValueError(f"{place}: no line begins with =>")
    headers, body = _headers(rest[:at])
    encoding = "utf-8"
    if body and body[0].startswith("@encoding "):
        encoding = body.pop(0).removeprefix("@encoding ")
    return Exchange(place, method, target, headers, "\n".join(body), encoding, _answer(place, rest[at:]))


def _headers(lines: list[str]) -> tuple[Headers, list[str]]:
    """Split lines into the headers at the beginning and the rest."""
    headers: Headers = []
    for number, line in enumerate(lines):
        match = _HEADER.fullmatch(line)
        if match is None or match[1] == "text":  # The text of an answer is not a header.
            return headers, lines[number:]
        headers.append((match[1], match[2]))
    return headers, []


def _answer(place: str, lines: list[str]) -> Answer:
    match = _STATUS.fullmatch(lines[0].removeprefix("=> "))
    if match is None:
        raise ValueError(f"{place}: not => STATUS …: {lines[0]}")
    status, said = int(match[1]), match[2] or ""
    headers, more = _headers(lines[1:])
    error = _ERROR.fullmatch(said)
    if error is None:
        return Answer(status, headers=headers, body="\n".join(filter(None, [said, *more])))
    if more:
        raise ValueError(f"{place}: a message is one line")
    return Answer(status, int(error[1]), error[2], headers)
