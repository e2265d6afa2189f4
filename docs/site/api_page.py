"""The reference of the API as a page, from the document that ``/openapi.json`` answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from registry import VERSION
from registry.api.routes import document, operations

Json = dict[str, Any]


async def _no_metrics() -> bytes:
    return b""


def api_page() -> str:
    """Return all operations by resource, then all bodies, as Markdown."""
    described = document(operations(VERSION, _no_metrics), VERSION)
    lines = ["# API reference", "", f"{described['info']['description']}", ""]
    lines += ["Generated from `/openapi.json`; [The API](api.md) explains pages, offsets and errors.", ""]
    tags: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).extend(_operation(method, path, operation))
    for tag, of_tag in tags.items():
        lines += [f"## {tag}", "", *of_tag]
    lines += ["## Bodies", ""]
    for name, schema in sorted(described["components"]["schemas"].items()):
        lines += _body(name, schema)
    return "\n".join(lines) + "\n"


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield from (f"### `{method.upper()} {path}`", "", f"{operation['summary']}.", "")
    parameters = [each for each in operation["parameters"] if each["in"] != "header"]
    if parameters:
        yield from ("| parameter | in | type | |", "| --- | --- | --- | --- |")
        for each in parameters:
            description = each.get("description", "")
            yield f"| `{each['name']}` | {each['in']} | {_kind(each['schema'])} | {_cell(description)} |"
        yield ""
    if body := operation.get("requestBody"):
        yield from (f"Body: {_kind(_first_schema(body))}", "")
    yield from ("| status | |", "| --- | --- |")
    for status, response in operation["responses"].items():
        answer = _kind(_first_schema(response)) if status.startswith("2") and "content" in response else ""
        shown = "; ".join(response["description"].split("\n\n"))
        yield f"| {status} | {_cell(shown)}{': ' + answer if answer else ''} |"
    yield ""


def _first_schema(content: Json) -> Json:
    found: Json = next(iter(content["content"].values()))["schema"]
    return found


def _body(name: str, schema: Json) -> Iterator[str]:
    yield from (f"### {name}", "")
    if description := schema.get("description"):
        yield from (f"{description}.", "")
    if members := schema.get("properties"):
        needed = schema.get("required", ())
        yield from ("| member | type | |", "| --- | --- | --- |")
        for member, each in members.items():
            shown = each.get("description", "") + (" (required)" if member in needed else "")
            yield f"| `{member}` | {_kind(each)} | {_cell(shown)} |"
        yield ""
    else:
        yield from (f"{_kind(schema)}", "")


def _kind(schema: Json) -> str:
    """Return the type of a value in words, with a link if it has a name."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for together in ("oneOf", "anyOf", "allOf"):
        if together in schema:
            return " or ".join(_kind(each) for each in schema[together])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
