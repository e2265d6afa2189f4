"""The request target: strict percent-decoding, and the rewriting of ``/contexts/{ctx}/…`` paths.

Functions of a target, or of another part of a request, can be cached as bytes (:func:`cache_by_bytes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from registry.domain.errors import BAD_REQUEST
from registry.domain.model import DEFAULT_CONTEXT

_T = TypeVar("_T")
_ENTRY_BYTES = 512  # overhead of an entry
# First segments of paths for administrators. Load balancers keep them from outside by these names, so
# ``/contexts/{ctx}/…`` must not be a second way to them.
OF_ADMINISTRATORS = frozenset({"admin", "metrics", "node", "quarantine"})
_OF_THE_CENSUS = (("usage", "census"), ("usage", "sources"), ("usage", "unknown"))
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})?")


def cache_by_bytes(
    *, bytes_max: int, key_bytes_max: int, value_bytes: int = 0
) -> Callable[[Callable[[bytes], _T]], Callable[[bytes], _T]]:
    """Return a decorator that caches the most recently used results within ``bytes_max``.

    Keys longer than ``key_bytes_max`` are not cached. ``value_bytes``: maximum size of a result.
    """

    def decorate(function: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
        known = lru_cache(bytes_max // (key_bytes_max + value_bytes + _ENTRY_BYTES))(function)

        def result(key: bytes) -> _T:
            return known(key) if len(key) <= key_bytes_max else function(key)

        return result

    return decorate


class Target(NamedTuple):
    """A decoded request target without empty path segments (from doubled and trailing slashes)."""

    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...]


def parse(raw_path: bytes, raw_query: bytes) -> Target:
    """Split and decode; raises 400 for broken escapes and text that is not UTF-8."""
    if b"%" in raw_path:
        segments = tuple([percent_decode(part) for part in raw_path.split(b"/") if part])
    else:
        segments = tuple(filter(None, percent_decode(raw_path).split("/")))
    query = []
    for pair in raw_query.split(b"&"):
        if pair:
            name, _, value = pair.replace(b"+", b" ").partition(b"=")
            query.append((percent_decode(name), percent_decode(value)))
    return Target(segments, tuple(query))


def percent_decode(raw: bytes) -> str:
    """Percent-decode ``raw`` once; raises 400."""
    try:
        return (_ESCAPE.sub(_unescape, raw) if b"%" in raw else raw).decode()
    except ValueError:
        raise BAD_REQUEST("HTTP 400 Bad Request: the URL is not well encoded") from None


def _unescape(match: re.Match[bytes]) -> bytes:
    if match[1] is None:
        raise ValueError(match[0])
    return bytes((int(match[1], 16),))


def in_context(method: str, target: Target) -> Target:
    """Remove ``/contexts/{ctx}`` from the path and qualify the rest (Confluent 8.x's context filter).

    Subjects, prefixes, config and mode are prefixed with ``:.ctx:``; all else is unchanged.
    Nothing is prefixed for the default context, ``.`` or ``:.:``, whose lists hold no other contexts.
    Paths for administrators do not exist in contexts.
    Raises 400 when the context's name holds a colon.
    """
    if len(target.segments) < 2 or target.segments[0] != "contexts":
        return target
    name, rest = target.segments[1], target.segments[2:]
    if rest and (rest[0] in OF_ADMINISTRATORS or rest[:2] in _OF_THE_CENSUS):
        return target
    prefix = _prefix(name)
    if not rest and prefix:
        return Target(("contexts", prefix), target.query)
    if not rest:
        # The default context itself: its plain name is the root document, its other one the list of all.
        return Target(() if name == DEFAULT_CONTEXT else ("contexts",), target.query)
    if not prefix:
        return Target(rest, _query(method, prefix, rest, target.query))
    if rest[0] in ("config", "mode"):
        owner = rest[1] if len(rest) > 1 else ""
        return Target((rest[0], _qualify(prefix, owner), *rest[2:]), target.query)
    return Target(_with_subject(prefix, rest), _query(method, prefix, rest, target.query))


def _prefix(name: str) -> str:
    if name.startswith(":."):
        name = name[1:].removesuffix(":")
    if ":" in name:
        raise BAD_REQUEST(f"Context name '{name}' cannot contain a colon")
    name = name if name.startswith(".") else "." + name
    return "" if name == DEFAULT_CONTEXT else f":{name}:"


def _qualify(prefix: str, name: str) -> str:
    return name if name.startswith((":.", ":*:")) else prefix + name


def _with_subject(prefix: str, rest: Sequence[str]) -> tuple[str, ...]:
    out = list(rest)
    for place, segment in enumerate(rest[:-1]):
        if segment in ("subjects", "deks") and rest[0] != "schemas":
            out[place + 1] = _qualify(prefix, rest[place + 1])
            break
    return tuple(out)


def _query(
    method: str, prefix: str, rest: Sequence[str], query: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    if list(rest) == ["me"]:
        return _qualify_parameter(prefix, "subject", query) if prefix else query
    if rest[:2] in (("schemas", "ids"), ("usage", "schemas")):
        if not prefix:
            return query
        return _qualify_parameter(prefix, "subject", query)
    if list(rest) in (["subjects"], ["schemas"], ["changes"], ["usage", "subjects"]) or "keks" in rest:
        return _qualify_parameter(prefix, "subjectPrefix", query)
    if rest[:2] == ("compatibility", "explain"):
        return (*(pair for pair in query if pair[0] != "context"), ("context", prefix))
    if rest[0].startswith("associations") and method in ("POST", "PUT", "PATCH"):
        return (*(pair for pair in query if pair[0] != "context"), ("context", prefix))
    return query


def _qualify_parameter(
    prefix: str, name: str, query: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    out = [(key, _qualify(prefix, value) if key == name else value) for key, value in query]
    if all(key != name for key, _ in query):
        out.append((name, prefix))
    return tuple(out)
