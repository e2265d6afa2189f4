"""The content of a registration as it would be stored."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.model import Metadata, Reference, RuleSet, Subject, guid_text, identity
from registry.domain.parsing import querying, stored
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.queries import entities
from registry.domain.queries.scope import TAKES_IDS, mode_in_scope
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import View
from registry.domain.schemas import FORMATS, Dependency, Exhausted, InvalidSchema, Unreadable

_TEXT_SHOWN_MAX = 10_240
_ONE_OF_TYPES = "must be one of AVRO, JSON, PROTOBUF"
TOO_MUCH_DDL = "Invalid logical type schema: It has too many parts, or makes too long a schema"
_UNRESOLVED = "Could not resolve schema references: "


@dataclass(frozen=True, slots=True)
class Content:
    """The content to store: everything that makes up a schema's identity, and its type."""

    schema_type: str
    # Canonical, or normalized on request.
    text: str
    # As sent by the client, but with -1 resolved to the version number.
    references: list[Reference]
    dependencies: list[Dependency]
    metadata: Metadata | None
    rules: RuleSet | None
    # The guid.
    md5: bytes = field(init=False)

    def __post_init__(self) -> None:
        md5 = identity(self.text, self.references, self.metadata, self.rules)
        object.__setattr__(self, "md5", md5)

    def with_metadata(self, metadata: Metadata | None, rules: RuleSet | None) -> Content:
        """Return the same schema with other metadata and rules."""
        if metadata == self.metadata and rules == self.rules:
            return self
        return Content(self.schema_type, self.text, self.references, self.dependencies, metadata, rules)

    def is_that_of(self, row: VersionRow) -> bool:
        """Return true if a version has exactly this content and type.

        Different contents can have one MD5, which covers their parts without the boundaries between them, nor
        does it cover in which list a rule is. A stored one is believed: it is of metadata in clear text.
        """
        if (row.md5, entities.schema_type(row)) != (self.md5, self.schema_type):
            return False
        return row.md5_stored or (
            entities.text(row) == self.text
            and entities.references(row) == self.references
            and entities.metadata(row) == self.metadata
            and entities.rule_set(row) == self.rules
        )

    @property
    def source(self) -> Source:
        """Return the source of the schema."""
        return Source(self.schema_type, self.text, tuple(self.dependencies))


def read(
    view: View,
    subject: Subject,
    request: Register,
    *,
    new: bool,
    normalize: bool,
    fields: bool = False,
    strict: bool = False,
) -> Querying[Content]:
    """Return the content of a request whose text is not blank. Raises 42201.

    ``new``: validate names, namespaces and defaults, and ignore soft-deleted referenced versions.
    ``fields``: also validate field names as ``validateFields`` requires. ``strict``: refuse two versions of
    one reference's name.
    """
    schema_type = request.type_name
    if schema_type not in FORMATS:
        raise errors.INVALID_SCHEMA(f"Invalid schema type {schema_type}")
    if request.canonical and not normalize and not request.references and not fields:
        return Content(schema_type, request.schema, [], [], request.metadata, request.rule_set)
    try:
        used = request.references or ()
        listed, dependencies = stored.resolve(view, subject, used, deleted=not new, strict=strict)
        source = Source(schema_type, request.schema, tuple(dependencies), new)
        if fields:
            yield from querying.check_fields(source)
        text = yield from (querying.normalized if normalize else querying.canonical)(source)
    except InvalidSchema as error:
        # Only where ids are brought, one is shown, and a missing one as a number (Confluent 8.4).
        if mode_in_scope(view, subject) in TAKES_IDS:
            raise invalid(request, error, no_id="0") from None
        raise invalid(msgspec.structs.replace(request, schema_id=-1), error) from None
    if normalize:
        listed = sorted(set(listed), key=lambda each: (each.name, each.subject, each.version))
    return Content(schema_type, text, listed, dependencies, request.metadata, request.rule_set)


def is_ddl(request: Register) -> bool:
    """Return true if the text of a registration is DDL (``format=logical``, Confluent 8.4)."""
    return request.format.lower() == "logical"


def from_ddl(view: View, subject: Subject, request: Register) -> Querying[Register]:
    """Return a registration of the schema that DDL declares, named after the request's subject. Raises 42201.

    Neither the record nor the answer shows that it came from DDL.
    """
    named = (request.schema_type or "").strip()
    if not named:
        raise errors.INVALID_SCHEMA(f"schemaType is required when format=logical, and {_ONE_OF_TYPES}")
    schema_type = named.upper()
    if schema_type not in FORMATS:
        raise errors.INVALID_SCHEMA(f"Unsupported schemaType '{named}' for format=logical; {_ONE_OF_TYPES}")
    if not request.schema.strip():
        raise errors.INVALID_SCHEMA("Schema is required when format=logical")
    try:
        _, dependencies = stored.resolve(view, subject, request.references or (), deleted=False)
    except InvalidSchema as error:
        raise errors.INVALID_SCHEMA(f"{_UNRESOLVED}{error}") from None
    source = Source(schema_type, request.schema, tuple(dependencies))
    try:
        text = yield from querying.native(source, request.subject, named)
    except Exhausted:
        raise errors.INVALID_SCHEMA(TOO_MUCH_DDL) from None
    except InvalidSchema as error:
        raise errors.INVALID_SCHEMA(str(error)) from None
    # It was parsed as a new schema, and the normal form of a text is canonical.
    known = {"schema": text, "schema_type": schema_type, "canonical": not request.references}
    return msgspec.structs.replace(request, **known, format="")


def invalid(request: Register, error: InvalidSchema, no_id: str = "null") -> RegistryError:
    """Return the error for an invalid schema (42201) with the wording of Confluent 8.4.

    ``no_id`` stands for the id of a request without one.
    """
    listed = ", ".join(shown_reference(*msgspec.structs.astuple(each)) for each in request.references or ())
    return _invalid(request, listed, error, no_id)


def incomplete_reference(request: Register, listed: str, reference: str) -> RegistryError:
    """Return the error for a request with an incomplete reference, given both texts as messages show them."""
    if is_ddl(request):
        return errors.INVALID_SCHEMA(f"{_UNRESOLVED}Invalid reference: {reference}")
    return _invalid(request, listed, Unreadable(f"Invalid reference: {reference}"))


def shown_reference(name: str | None, subject: str | None, version: int | None) -> str:
    """Return a reference as messages show it."""
    number = "null" if version is None else version
    return f"{{name='{name or 'null'}', subject='{subject or 'null'}', version={number}}}"


def _invalid(request: Register, listed: str, error: InvalidSchema, no_id: str = "null") -> RegistryError:
    schema_type = request.type_name
    if not isinstance(error, Unreadable):
        shown = _format(request, listed, f"version={request.version},id={request.schema_id}")
        return errors.INVALID_SCHEMA(f"Invalid schema {shown}, details: {error}")
    front = f"Invalid schema of type {schema_type}, details: "
    served = FORMATS.get(schema_type)
    if served is not None and served.about.shows_unreadable:
        shown_id = no_id if request.schema_id < 0 else request.schema_id
        shown = _format(request, listed, f"version={request.version or 'null'},id={shown_id}")
        cause = f"Invalid schema {shown} with refs [{listed}] of type {schema_type}, details: {error}"
    else:
        cause = f"Invalid schema of type {schema_type}, details: {error}"
    return errors.INVALID_SCHEMA(front + cause)


def _format(request: Register, listed: str, numbers: str) -> str:
    text = request.schema
    shown = text if len(text) <= _TEXT_SHOWN_MAX else f"<truncated> {text[:_TEXT_SHOWN_MAX]}..."
    md5 = identity(text, request.references or (), request.metadata, request.rule_set)
    return (
        f"{{subject={request.subject},{numbers},guid={guid_text(md5)},schemaType={request.type_name},"
        f"references=[{listed}],metadata={entities.as_printed(request.metadata)},"
        f"ruleSet={entities.as_printed(request.rule_set)},schema={shown},schemaTags=null,ts=null,deleted=null}}"
    )
