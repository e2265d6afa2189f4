"""How much a request body may say beside schemas, which are bounded by what reading them costs.

All of this is read, sorted, hashed and compared at once. Confluent's server knows no bounds; these are far
beyond what anybody writes by hand, and keep a body of any permitted length to some tenths of a second.
"""

from __future__ import annotations

from typing import Any

from registry.domain.errors import UNPROCESSABLE

REFERENCES_MAX = 1_000
"""Of one schema."""
ENTRIES_MAX = 10_000
"""Members and items, at any depth, of metadata, of a rule set, or of a list of tags to change."""
BATCH_ENTRIES_MAX = 30_000
"""The same of all that a batch about associations says."""

LARGE_BYTES = 256 * 1024
"""A body that is shorter holds too little to count what it holds."""
BODY_ENTRIES_MAX = 200_000
"""Commas and brackets of a body, those in texts aside: so much is read in a fifth of a second."""
# Texts for each of them, at the most: a key and its value.
_QUOTES_MAX = 4 * BODY_ENTRIES_MAX


def check_large(body: bytes) -> None:
    """Raise 422 for a JSON text that has too many entries to be read at once."""
    if _entries(body) <= BODY_ENTRIES_MAX:
        return
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # every quote left begins or ends a text
    if bare.count(b'"') > _QUOTES_MAX or _entries(b"".join(bare.split(b'"')[::2])) > BODY_ENTRIES_MAX:
        raise _too_many("request", BODY_ENTRIES_MAX)


def _entries(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def check_references(value: Any, member: str) -> None:
    """Raise 422 for too many references."""
    if type(value) is list and len(value) > REFERENCES_MAX:
        raise _too_many(member, REFERENCES_MAX)


def check_entries(value: Any, member: str, most: int = ENTRIES_MAX) -> None:
    """Raise 422 for a JSON value with too many entries."""
    left, stack = most, [value]
    while stack:
        each = stack.pop()
        if type(each) is not dict and type(each) is not list:
            continue
        left -= len(each)
        if left < 0:
            raise _too_many(member, most)
        stack += each.values() if type(each) is dict else each


def _too_many(member: str, most: int) -> Exception:
    return UNPROCESSABLE(f"'{member}' has more than {most} entries")
