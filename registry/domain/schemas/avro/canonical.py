"""The canonical text of a schema, as Java's ``Schema.toString`` prints it.

A type is written in full once and by name afterwards; a namespace only if it differs from the enclosing one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from registry.domain.schemas.json_text import print_json, quote_json

from .attributes import qualified
from .model import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Name,
    Node,
    Primitive,
    Record,
    Union,
    Unresolved,
)

# Something to be written: text, or a type inside a namespace.
_Piece: TypeAlias = str | tuple[Node, str | None]


def canonical_text(node: Node, known: Iterable[str]) -> str:
    """Return the text of ``node``; types whose full names are ``known`` appear by name only."""
    out: list[str] = []
    named = set(known)
    # The next piece comes last. A list, because types nest as deep as their text permits.
    todo: list[_Piece] = [(node, None)]
    while todo:
        piece = todo.pop()
        if isinstance(piece, str):
            out.append(piece)
        elif piece[0].text is not None:
            out.append(piece[0].text)
        else:
            todo += reversed(_pieces(*piece, named))
    return "".join(out)


def _pieces(node: Node, space: str | None, known: set[str]) -> Sequence[_Piece]:
    """Return the pieces of a type; ``known`` grows by the one that is written in full."""
    if type(node) is Primitive:
        return (f'{{"type":"{node.kind}"{_props(node.props)}}}',)
    if type(node) is Record or type(node) is Enum or type(node) is Fixed:
        if node.name.full in known:
            return (quote_json(qualified(node.name, space)),)
        known.add(node.name.full)
        if type(node) is Record:
            return _record(node, space)
        if type(node) is Enum:
            return (_enum(node, space),)
        assert type(node) is Fixed
        return (_print_fixed(node, space),)
    if type(node) is Union:
        return _union(node, space)
    if type(node) is Array:
        return '{"type":"array","items":', (node.items, space), _props(node.props), "}"
    if type(node) is Map:
        return '{"type":"map","values":', (node.values, space), _props(node.props), "}"
    assert type(node) is Unresolved
    return (quote_json(node.full),)


def _union(node: Union, space: str | None) -> list[_Piece]:
    pieces: list[_Piece] = []
    for branch in node.branches:
        pieces += (",", (branch, space))
    return ["[", *pieces[1:], "]"]


def _record(node: Record, space: str | None) -> list[_Piece]:
    inner = node.name.space
    kind = "error" if node.is_error else "record"
    texts = [f'{{"type":"{kind}",{_name(node.name, space)}{_doc(node.doc)},"fields":[']
    pieces: list[_Piece] = []
    comma = ""
    for field in node.fields:
        rest = "" if field.doc is None else f',"doc":{quote_json(field.doc)}'
        if field.default is not MISSING:
            rest += ',"default":null' if field.default is None else f',"default":{print_json(field.default)}'
        if field.props or field.aliases or field.order != "ascending":
            rest += _rarer(field)
        text = field.type.text
        if text is None:
            texts.append(f'{comma}{{"name":"{field.name}","type":')
            pieces += ("".join(texts), (field.type, inner))
            texts = [rest + "}"]
        else:
            texts.append(f'{comma}{{"name":"{field.name}","type":{text}{rest}}}')
        comma = ","
    texts.append(f"]{_props(node.props)}{_aliases(node.aliases, inner)}}}")
    return [*pieces, "".join(texts)]


def _rarer(field: Field) -> str:
    """Return the attributes of a field that few have."""
    order = "" if field.order == "ascending" else f',"order":"{field.order}"'
    aliases = f',"aliases":[{",".join(map(quote_json, field.aliases))}]' if field.aliases else ""
    return order + aliases + _props(field.props)


def _enum(node: Enum, space: str | None) -> str:
    symbols = ",".join(map(quote_json, node.symbols))
    default = "" if node.default is None else f',"default":{quote_json(node.default)}'
    return (
        f'{{"type":"enum",{_name(node.name, space)}{_doc(node.doc)},"symbols":[{symbols}]{default}'
        f"{_props(node.props)}{_aliases(node.aliases, node.name.space)}}}"
    )


def _print_fixed(node: Fixed, space: str | None) -> str:
    return (
        f'{{"type":"fixed",{_name(node.name, space)}{_doc(node.doc)},"size":{node.size}'
        f"{_props(node.props)}{_aliases(node.aliases, node.name.space)}}}"
    )


def _name(name: Name, space: str | None) -> str:
    if name.space == space:
        return f'"name":{quote_json(name.simple)}'
    return f'"name":{quote_json(name.simple)},"namespace":{quote_json(name.space or "")}'


def _doc(doc: str | None) -> str:
    return "" if doc is None else f',"doc":{quote_json(doc)}'


def _props(props: dict[str, Json] | None) -> str:
    if not props:
        return ""
    text = ""
    for key, value in props.items():
        text += f",{quote_json(key)}:{print_json(value)}"
    return text


def _aliases(aliases: tuple[Name, ...], space: str | None) -> str:
    if not aliases:
        return ""
    return f',"aliases":[{",".join([quote_json(qualified(alias, space)) for alias in aliases])}]'
