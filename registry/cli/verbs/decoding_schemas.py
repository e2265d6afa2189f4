"""The schemas of messages, fetched from the registry once each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from registry.cli.client.client import RegistryClient
from registry.cli.client.resources import ErrorAnswer, Schema, context_prefix, version_path
from registry.cli.decoding.frame import CannotDecode, Headers, Options, SchemaName, split_frame
from registry.cli.decoding.message import Answer, MessageDecoder, WriterSchema, writer_schema
from registry.domain.model import DEFAULT_TYPE


class SchemasById:
    """Decoders by the names that messages have for their schemas.

    ``context``: that of the ids; empty for the default one.
    """

    def __init__(self, registry: RegistryClient, context: str, options: Options) -> None:
        self._registry = registry
        self._context = context_prefix(context)
        self._options = options
        self._known: dict[SchemaName, tuple[MessageDecoder, dict[str, Any]]] = {}

    def line(
        self, about: Mapping[str, Any], data: bytes | None, headers: Headers, key: bool, with_details: bool
    ) -> tuple[str, tuple[str, ...]]:
        """Return a message as a line of JSON, and doubts about it.

        ``with_details``: include ``about`` and the schema. Raises :class:`CannotDecode` and the client's
        errors.
        """
        member = "key" if key else "value"
        if data is None:
            return (_details(about, {}, member, "null", ()) if with_details else "null"), ()
        frame = split_frame(data, headers, key=key)
        decoder, schema = self._decoder(frame.schema)
        found = decoder.decode(frame)
        if with_details:
            return _details(about, schema, member, found.json, found.warnings), ()
        return found.json, found.warnings

    def _decoder(self, name: SchemaName) -> tuple[MessageDecoder, dict[str, Any]]:
        if name not in self._known:
            found = self._ask(name)
            decoder = MessageDecoder(writer_schema(found, self._version), self._options)
            shown: dict[str, Any] = {"id": name.id} if name.guid == "" else {"guid": name.guid}
            shown["type"] = found.get("schemaType") or DEFAULT_TYPE
            shown |= {each: found[each] for each in ("subject", "version") if each in found}
            self._known[name] = decoder, shown
        return self._known[name]

    def writer(self, name: SchemaName) -> WriterSchema:
        """Return the schema that a message names. Raises :class:`CannotDecode` and the client's errors."""
        return writer_schema(self._ask(name), self._version)

    def _ask(self, name: SchemaName) -> Answer:
        place = f"/schemas/guids/{name.guid}" if name.id is None else f"/schemas/ids/{name.id}"
        params = {"subject": self._context or None} if name.id is not None else {}
        return self._answer(place, f"the registry has no schema with the {name}", **params)

    def _version(self, subject: str, number: int) -> Answer:
        qualified = subject if subject.startswith(":") else f"{self._context}{subject}"
        place = version_path(qualified, number)
        missing = f"the registry lacks version {number} of {qualified}, which the schema refers to"
        return self._answer(place, missing, deleted=True)

    def _answer(self, place: str, missing: str, **params: Any) -> Answer:
        try:
            found: Answer = self._registry.get(place, Schema, **params)
        except ErrorAnswer as error:
            if error.is_verdict:
                raise CannotDecode(f"{missing}: {error.message}") from None
            raise
        return found


def _details(
    about: Mapping[str, Any], schema: dict[str, Any], member: str, json: str, warnings: tuple[str, ...]
) -> str:
    found = {
        **about,
        **({"schema": schema} if schema else {}),
        **({"warnings": warnings} if warnings else {}),
        member: msgspec.Raw(json.encode()),
    }
    return msgspec.json.encode(found).decode()
