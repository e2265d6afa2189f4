"""Schemas in files, with their types and references."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from registry.cli.output import Failure, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.cli.client.client import RegistryClient

_BYTES_MAX = 64 * 2**20
_REFERENCE = re.compile(r"(?P<name>[^=]+)=(?P<subject>.+):(?P<version>[0-9]{1,10}|latest)")


class SchemaType(click.ParamType[str]):
    """The name of a schema type, in any case."""

    name = "TYPE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as the API spells it."""
        return _choice().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the types that begin with what was typed."""
        return _choice().shell_complete(ctx, param, incomplete)


def _choice() -> click.Choice[str]:
    from registry.domain.schemas import FORMATS  # noqa: PLC0415 - the help needs none of it

    return click.Choice(sorted(FORMATS), case_sensitive=False)


def _types() -> dict[str, str]:
    from registry.domain.schemas import types_by_extension  # noqa: PLC0415 - as above

    return types_by_extension()


def type_of(answer: Mapping[str, Any]) -> str:
    """Return the schema type in an answer of a registry, which leaves out the default."""
    from registry.domain.model import DEFAULT_TYPE  # noqa: PLC0415 - as above

    found: str = answer.get("schemaType") or DEFAULT_TYPE
    return found


def is_schema_file(name: str) -> bool:
    """Return true if a name ends like that of a schema's file."""
    return Path(name).suffix.lower() in _types()


class SchemaFile(NamedTuple):
    """A schema as it lies in a file."""

    text: str
    schema_type: str

    @classmethod
    def read(cls, name: str, schema_type: str | None = None) -> SchemaFile:
        """Read a file, or standard input for ``-``. Raises :class:`Failure`."""
        types = _types()
        found = schema_type or types.get(Path(name).suffix.lower())
        if found is None:
            known = ", ".join(sorted(types))
            raise Failure(f"the type of {name} is unknown: give --type, or a file that ends in {known}")
        return cls(read_text(name), found)

    def from_ddl(self, subject: str, referenced: Sequence[tuple[str, str]]) -> SchemaFile:
        """Return the schema that DDL describes, as a registry with ``format=logical`` makes it.

        It is made here, because other registries do not know DDL, and none does when it checks a schema.
        ``referenced``: names and texts of the schemas that it refers to. Raises :class:`Refusal`.
        """
        from registry.domain.lookup.registration import TOO_MUCH_DDL  # noqa: PLC0415 - the help needs none of it
        from registry.domain.parsing.parser import Parser  # noqa: PLC0415
        from registry.domain.parsing.querying import native  # noqa: PLC0415
        from registry.domain.parsing.schema_queries import Source  # noqa: PLC0415
        from registry.domain.schemas import Dependency, Exhausted, InvalidSchema  # noqa: PLC0415

        source = Source(self.schema_type, self.text, tuple(Dependency(*each) for each in referenced))
        try:
            return SchemaFile(Parser().run(native(source, subject, self.schema_type)), self.schema_type)
        except InvalidSchema as error:
            raise Refusal(str(error)) from None
        except Exhausted:
            raise Refusal(TOO_MUCH_DDL) from None


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input for ``-``. Raises :class:`Failure`."""
    try:
        if name == "-":
            content = sys.stdin.buffer.read(_BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(_BYTES_MAX + 1)
        if len(content) > _BYTES_MAX:
            raise Failure(f"{name} is larger than {_BYTES_MAX} bytes, which no registry accepts")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise Failure(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"{name} is not UTF-8") from None


def read_json(name: str, kind: type) -> Any:
    """Return the JSON of a file, which is a list or an object as ``kind`` says. Raises :class:`Failure`."""
    try:
        found = json.loads(read_text(name))
    except (ValueError, RecursionError) as error:
        raise Failure(f"{name} is not JSON: {error}") from None
    if not isinstance(found, kind):
        raise Failure(f"{name} is not a JSON {'array' if kind is list else 'object'}")
    return found


def referenced_schemas(
    registry: RegistryClient, subject: str, references: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """Return names and texts of all schemas that the references of a subject lead to.

    Each comes after those that it refers to.
    """
    from registry.cli.client.resources import Version, version_path  # noqa: PLC0415 - as above
    from registry.domain.model import Subject  # noqa: PLC0415 - as above

    found: dict[str, str] = {}
    seen: set[str] = set()
    context = Subject.parse(subject).context
    todo: list[tuple[Mapping[str, Any], str, str | None]] = [
        (each, context, None) for each in reversed(references)
    ]
    while todo:
        reference, context, text = todo.pop()
        if text is not None:
            found[reference["name"]] = text
        elif reference["name"] not in seen:
            seen.add(reference["name"])
            target, number = Subject.within(context, reference["subject"]), reference["version"]
            path = version_path(target.qualified, "latest" if number < 0 else number)
            version = registry.get(path, Version)
            todo.append((reference, context, version["schema"]))
            todo += [(each, target.context, None) for each in reversed(version.get("references") or [])]
    return [*found.items()]


def reference_list(words: Sequence[str], file: str = "") -> list[dict[str, Any]]:
    """Return the references in a JSON file and those given as ``NAME=SUBJECT:VERSION``.

    Raises :class:`Failure`.
    """
    found = read_json(file, list) if file else []
    for word in words:
        match = _REFERENCE.fullmatch(word)
        if match is None:
            raise Failure(f"{word!r} is not a reference: write NAME=SUBJECT:VERSION")
        version = match["version"]
        found.append(
            {
                "name": match["name"],
                "subject": match["subject"],
                "version": -1 if version == "latest" else int(version),
            }
        )
    return found
