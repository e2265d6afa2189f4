"""The canonical text of a schema, as Java's ``Schema.toString`` prints it.

A type is written in full once and by name afterwards; a namespace only if it differs from the enclosing one.
"""

from __future__ import annotations

from collections.abc import Iterable

from registry.domain.schemas.json_text import print_json, quote_json
from registry.domain.schemas.trampoline import Walk, run

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


def canonical_text(node: Node, known: Iterable[str]) -> str:
    """Return the text of ``node``; types whose full names are ``known`` appear by name only."""
    out: list[str] = []
    named = set(known)
    text = _leaf(node, None, named)
    if text is not None:
        return text
    run(_write(node, None, named, out))
    return "".join(out)


def _leaf(node: Node, space: str | None, known: set[str]) -> str | None:
    """Return the text of a node without definitions inside, else None."""
    if type(node) is Primitive:
        return node.text or f'{{"type":"{node.kind}"{_props(node.props)}}}'
    if type(node) is Union:
        texts = []
        for branch in node.branches:
            text = _leaf(branch, space, known)
            if text is None:
                return None
            texts.append(text)
        return f"[{','.join(texts)}]"
    if type(node) is Record or type(node) is Enum or type(node) is Fixed:
        return quote_json(qualified(node.name, space)) if node.name.full in known else None
    if type(node) is Unresolved:
        return quote_json(node.full)
    return None


def _write(node: Node, space: str | None, known: set[str], out: list[str]) -> Walk[None]:
    if type(node) is Union:
        comma = "["
        for branch in node.branches:
            out.append(comma)
            comma = ","
            text = _leaf(branch, space, known)
            if text is None:
                yield _write(branch, space, known, out)
            else:
                out.append(text)
        out.append("]")
    elif type(node) is Array:
        out.append('{"type":"array","items":')
        yield _write_inner(node.items, node.props, space, known, out)
    elif type(node) is Map:
        out.append('{"type":"map","values":')
        yield _write_inner(node.values, node.props, space, known, out)
    elif type(node) is Record:
        known.add(node.name.full)
        yield _write_record(node, space, known, out)
    elif type(node) is Enum:
        known.add(node.name.full)
        out.append(_enum(node, space))
    elif type(node) is Fixed:
        known.add(node.name.full)
        out.append(_print_fixed(node, space))


def _write_inner(
    node: Node, props: dict[str, Json] | None, space: str | None, known: set[str], out: list[str]
) -> Walk[None]:
    text = _leaf(node, space, known)
    if text is None:
        yield _write(node, space, known, out)
    else:
        out.append(text)
    out.append(_props(props) + "}")


def _write_record(node: Record, space: str | None, known: set[str], out: list[str]) -> Walk[None]:
    name = node.name
    kind = "error" if node.is_error else "record"
    out.append(f'{{"type":"{kind}",{_name(name, space)}{_doc(node.doc)},"fields":[')
    inner = name.space
    comma = ""
    for field in node.fields:
        text = field.type.text or _leaf(field.type, inner, known)
        if text is None:
            out.append(f'{comma}{{"name":"{field.name}","type":')
            yield _write(field.type, inner, known, out)
            out.append(f"{_rest(field)}}}")
        elif field.default is MISSING and field.doc is None:
            out.append(f'{comma}{{"name":"{field.name}","type":{text}{_more(field)}}}')
        else:
            out.append(f'{comma}{{"name":"{field.name}","type":{text}{_rest(field)}}}')
        comma = ","
    out.append("]" + _props(node.props) + _aliases(node.aliases, inner) + "}")


def _rest(field: Field) -> str:
    """Return the part of a field's text after its type."""
    text = "" if field.doc is None else f',"doc":{quote_json(field.doc)}'
    if field.default is not MISSING:
        text += ',"default":null' if field.default is None else f',"default":{print_json(field.default)}'
    return text + _more(field)


def _more(field: Field) -> str:
    """Return the rarer attributes of a field."""
    text = ""
    if field.order != "ascending":
        text = f',"order":"{field.order}"'
    if field.aliases:
        text += f',"aliases":[{",".join(map(quote_json, field.aliases))}]'
    return text + _props(field.props) if field.props else text


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
    return "".join([f",{quote_json(key)}:{print_json(value)}" for key, value in props.items()])


def _aliases(aliases: tuple[Name, ...], space: str | None) -> str:
    if not aliases:
        return ""
    return f',"aliases":[{",".join([quote_json(qualified(alias, space)) for alias in aliases])}]'
