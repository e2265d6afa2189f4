"""Schemas in files, with their types and references."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .exit_status import Failure

TYPES = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_BYTES_MAX = 64 * 2**20
_REFERENCE = re.compile(r"(?P<name>[^=]+)=(?P<subject>.+):(?P<version>[0-9]{1,10}|latest)")


class SchemaFile(NamedTuple):
    """A schema as it lies in a file."""

    text: str
    schema_type: str

    @classmethod
    def read(cls, name: str, schema_type: str | None = None) -> SchemaFile:
        """Read a file, or standard input for ``-``. Raises :class:`Failure`."""
        found = schema_type or TYPES.get(Path(name).suffix.lower())
        if found is None:
            known = ", ".join(TYPES)
            raise Failure(f"the type of {name} is unknown: give --type, or a file that ends in {known}")
        return cls(read_text(name), found)


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
        raise Failure(f"{name} holds no JSON {'array' if kind is list else 'object'}")
    return found


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
