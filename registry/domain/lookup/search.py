"""The words of a subject for a search, by kind, and the matches that it shows.

A subject is found by its newest version that is not soft-deleted: its name, the fields and types of the
schema, its docs, tags, the properties of its metadata, such as the owner, without sensitive ones, and who
registered it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from typing import Final, NamedTuple

from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.queries import entities
from registry.domain.queries.versions import Registered
from registry.domain.rows.version_row import ENCODED_PROPERTY
from registry.domain.schemas import FORMATS, InvalidSchema, SchemaField, words
from registry.domain.schemas.explaining import cut
from registry.domain.schemas.fields import FIELDS_MAX

from .metadata import RESERVED_PROPERTY, VERSION_PROPERTY

# The kinds of hits, the best first, and the letters of their words' keys.
KINDS: Final = {
    "subject": b"s", "field": b"f", "type": b"y",
    "tag": b"t", "property": b"p", "principal": b"r", "doc": b"d",
}  # fmt: skip
# Different words of one subject, and characters of a schema, times its format's weight, that are read.
WORDS_MAX: Final = 20_000
TEXT_MAX: Final = 1 << 20
# Matches that a hit shows, and their characters.
MATCHES_MAX: Final = 5
SHOWN_MAX: Final = 200
_HIDDEN: Final = (ENCODED_PROPERTY, VERSION_PROPERTY, RESERVED_PROPERTY)


class Item(NamedTuple):
    """Something that words are found in."""

    kind: str
    # Of the field or type, or the property's name; empty for a subject.
    path: str
    text: str


class Match(NamedTuple):
    """An item in which words were found, and where in its text: begins and ends."""

    item: Item
    ranges: list[tuple[int, int]]


def keys_of(found: Registered, principal: str) -> set[bytes]:
    """Return the keys of a version's words: the letter of the kind, and the word.

    ``principal``: who registered it; empty: not known.
    """
    keys: set[bytes] = set()
    for item in row_items(found, principal):
        keys.update(_name_keys(item.kind, item.text))
        if item.kind == "property":
            keys.update(_name_keys(item.kind, item.path))
    docs: list[str] = []
    if is_read(found):
        kind = FORMATS[entities.schema_type(found.row)]
        named: list[tuple[bytes, ...]] = []
        # What comes before a fault is kept.
        with suppress(InvalidSchema):
            for what, name, doc, tags in islice(kind.search_parts(entities.text(found.row)), FIELDS_MAX):
                named.append(_name_keys(what, name))
                if tags:
                    named += (_name_keys("tag", tag) for tag in tags)
                if doc:
                    docs.append(doc[: words.TEXT_MAX])
        keys.update(*named)
    if len(keys) < WORDS_MAX:
        if not docs:
            return keys
        of_docs = {*chain.from_iterable(map(_doc_keys, {*words.runs_of(docs)}))}
        if len(keys) + len(of_docs) <= WORDS_MAX:
            return keys | of_docs
        keys.update(sorted(of_docs)[: WORDS_MAX - len(keys)])
    return {*sorted(keys)[:WORDS_MAX]}


# The words of a registry repeat: it has far fewer of them than fields.
@lru_cache(maxsize=50_000)
def _name_keys(kind: str, name: str) -> tuple[bytes, ...]:
    letter, found = KINDS[kind], words.name_words(name)
    if len(found) < 2:
        return tuple(letter + word.encode() for word in found)
    *parts, whole = found
    return (*(letter + word.encode() for word in parts), _whole_key(letter, parts[0], whole))


def _whole_key(letter: bytes, first: str, whole: str) -> bytes:
    """Return the key of a name of several words.

    It stands apart from the keys of words: there are as many whole names as subjects, and what begins the
    first word finds the name by that word already.
    """
    if not whole.startswith(first):  # composed with the next word
        return letter + whole.encode()
    return letter.upper() + first.encode() + b"\0" + whole[len(first) :].encode()


def beginnings(kind: str, word: str) -> Iterator[bytes]:
    """Yield the beginnings of the keys that a word of a query finds."""
    letter = KINDS[kind]
    yield letter + word.encode()
    yield from (_whole_key(letter, word[:length], word) for length in range(1, len(word)))


@lru_cache(maxsize=50_000)
def _doc_keys(run: str) -> tuple[bytes, ...]:
    letter = KINDS["doc"]
    return tuple(letter + word.encode() for word in words.run_words(run))


def is_read(found: Registered) -> bool:
    """Return true if the schema's fields are searched: the type is served, and the text not very long."""
    served = FORMATS.get(entities.schema_type(found.row))
    return served is not None and len(found.row.schema) * served.weight <= TEXT_MAX


def row_items(found: Registered, principal: str) -> Iterator[Item]:
    """Yield what is known of a version without its schema."""
    yield Item("subject", "", found.subject.qualified)
    if principal:
        yield Item("principal", "", principal)
    meta = entities.metadata(found.row)
    if meta is None:
        return
    for path, tags in (meta.tags or {}).items():
        yield from (Item("tag", path, tag) for tag in tags)
    hidden = {*_HIDDEN, *(meta.sensitive or ())}
    yield from (Item("property", *each) for each in (meta.properties or {}).items() if each[0] not in hidden)


def field_items(each: SchemaField) -> Iterator[Item]:
    """Yield what a field or type says."""
    yield Item(each.kind, each.path, each.name)
    yield from (Item("tag", each.path or each.name, tag) for tag in each.tags)
    if each.doc:
        yield Item("doc", each.path or each.name, each.doc)


def find_matches(
    found: Registered, principal: str, wanted: Sequence[str], kinds: Sequence[str]
) -> Querying[list[Match]]:
    """Return the first matches of a version, the best kinds first."""
    items = [*row_items(found, principal)]
    if is_read(found) and set(kinds) != {"subject"}:
        source = Source(entities.schema_type(found.row), entities.text(found.row))
        try:
            page = yield from querying.fields(source, 0, 4 * MATCHES_MAX, words=tuple(wanted))
        except InvalidSchema:
            pass
        else:
            items += (item for each in page.fields for item in field_items(each))
    matches = (_match(each, wanted) for each in items if each.kind in kinds)
    order = [*KINDS]
    shown = [each for each in matches if each is not None]
    return sorted(shown, key=lambda each: order.index(each.item.kind))[:MATCHES_MAX]


def _match(item: Item, wanted: Sequence[str]) -> Match | None:
    kind, path, text = item
    ranges = words.ranges(text, wanted)
    if not ranges:
        return Match(_cut(item, 0), []) if kind == "property" and words.matches(path, wanted) else None
    # Of a long text the part around the first word.
    begin = max(0, ranges[0][0] - SHOWN_MAX // 4) if len(text) > SHOWN_MAX else 0
    shown = _cut(item, begin)
    moved = [(first - begin, last - begin) for first, last in ranges]
    # The last character of a text that was cut is not its own.
    end = SHOWN_MAX - 1 if len(text) - begin > SHOWN_MAX else len(shown.text)
    return Match(shown, [each for each in moved if each[1] <= end])


def _cut(item: Item, begin: int) -> Item:
    return item._replace(path=cut(item.path, SHOWN_MAX), text=cut(item.text[begin:], SHOWN_MAX))


def names_all(name: str, wanted: Sequence[str]) -> bool:
    """Return true if all words are found in a subject's name."""
    own = words.name_words(name)
    return all(any(words.begins(word, each) for word in own) for each in wanted)
