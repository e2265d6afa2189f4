"""Whether a schema may follow the versions that are there, and why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice, takewhile, tee
from typing import Any, Final

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.lookup import registration
from registry.domain.lookup.find import checks_fields, normalizes
from registry.domain.lookup.metadata import RESERVED_PROPERTY, property_of
from registry.domain.lookup.registration import Content
from registry.domain.model import LATEST, Metadata, Subject
from registry.domain.parsing.parser import VERDICT_BYTES, Parser, TooMuchText, together, with_next
from registry.domain.parsing.schema_queries import SchemaQuery, Source
from registry.domain.queries import entities, versions
from registry.domain.queries.scope import (
    Config,
    Defaults,
    config_in_scope,
    validates_fields,
    validates_new_schemas,
)
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.layout import View
from registry.domain.schemas import STRICT, Change, Exhausted, InvalidSchema, Schema, digest

from . import results
from .results import READERS, Reader, Told, Verdict

_TEXT_SHOWN_MAX = 10_240
_TOO_LONG = "The comparison with version %d of subject '%s' takes too long; the schemas combine too much"


def check(
    view: View,
    parser: Parser,
    content: Content,
    earlier: Iterable[Registered],
    config: Config,
    defaults: Defaults,
) -> list[str]:
    """Why ``content`` may not follow ``earlier`` (newest first, none soft-deleted); empty where it may.

    The messages are Confluent's: reserved fields, differences to the first version that fails, that version's
    number and text, and the rules that applied.
    """
    return _Check(view, parser, content, config, defaults).messages(earlier)


def explained(
    view: View,
    parser: Parser,
    content: Content,
    earlier: Iterable[Registered],
    config: Config,
    defaults: Defaults,
    *,
    lines: bool = False,
) -> Verdict:
    """The same verdict with the same messages, and every change that was found on the way to it.

    ``lines``: with the lines in which the changed parts stand.
    """
    check = _Check(view, parser, content, config, defaults, explains=True, lines=lines)
    messages = check.messages(earlier)
    return Verdict(messages, check.level, check.told)


def known_to_pass(
    parser: Parser, content: Content, config: Config, defaults: Defaults
) -> Callable[[bytes], bool] | None:
    """Return a test for version rows, packed, which ``content`` was found to be compatible with before.

    They may be left out of what is checked. None: at this level, each version counts.
    """
    level = config.compatibility_level or defaults.compatibility
    if not level.endswith("_TRANSITIVE") or validates_fields(config, defaults):
        return None
    wanted, kind = _wanted(content, level, config), b'"%b"' % content.schema_type.encode()

    def passes(value: bytes) -> bool:
        said = layout.plain_content_of(value)
        return said is not None and said[0] == kind and bool(parser.compatible.get(wanted + said[1]))

    return passes


def _wanted(content: Content, level: str, config: Config) -> bytes:
    """Return what stands for what is compared with each version, and how."""
    return _source(content).digest + digest((*READERS[level], config.compatibility_policy or STRICT))


def _source(content: Content) -> Source:
    return Source(content.schema_type, content.text, tuple(content.dependencies))


class _Check:
    """One check. There is one way to a verdict, whether or not it is to be explained."""

    def __init__(
        self,
        view: View,
        parser: Parser,
        content: Content,
        config: Config,
        defaults: Defaults,
        *,
        explains: bool = False,
        lines: bool = False,
    ) -> None:
        self.level: Final = config.compatibility_level or defaults.compatibility
        self.told: Final[list[Told]] = []
        """Every change, where the check explains."""
        self._view = view
        self._parser = parser
        self._content = content
        self._config = config
        self._fields_checked = validates_fields(config, defaults)
        self._explains = explains
        self._lines = lines
        self._budget = parser.budget()

    def messages(self, earlier: Iterable[Registered]) -> list[str]:
        """As in :func:`check`."""
        messages: list[str] = []
        if self._fields_checked:
            earlier, latest = tee(earlier)
            messages += self._reserved_fields(next(latest, None))
        messages += self._against(self._compared(earlier))
        if messages:
            checked = "true" if self._fields_checked else "false"
            messages.append(f"{{validateFields: '{checked}', compatibility: '{self.level}'}}")
        return messages

    def _compared(self, earlier: Iterable[Registered]) -> Iterator[Registered]:
        group = self._config.compatibility_group
        if group is not None:
            value = property_of(self._content.metadata, group)
            earlier = (each for each in earlier if property_of(entities.metadata(each.row), group) == value)
        return islice(earlier, None if self.level.endswith("_TRANSITIVE") else 1)

    def _against(self, compared: Iterable[Registered]) -> list[str]:
        row = iter(compared if READERS[self.level] else ())
        for each in row:
            kind = entities.schema_type(each.row)
            if kind != self._content.schema_type:
                self._tell(results.other_type(kind, self._content.schema_type), None, each)
                return [results.OTHER_TYPE]
            try:
                differences = self._differences(each)
            except TooMuchText as too_much:
                if too_much.question.parts[0].what == "differences":
                    raise  # this version is the last that is looked at
                alike = takewhile(self._is_alike, row)
                raise with_next(too_much, alike, self._differences, self._parser.given) from None
            if differences:
                return [*differences, *_what_failed(each)]
        return []

    def _is_alike(self, old: Registered) -> bool:
        return entities.schema_type(old.row) == self._content.schema_type

    def _differences(self, old: Registered) -> list[str]:
        if self._explains:
            return self._compared_with(old)
        if self._is_known_to_pass(old):
            return []
        question = self._question(old)
        passes = None if question is None else self._parser.passes(question)
        # Where some comparisons were too much to be made here, the others are not begun here.
        if question is not None and passes is None and self._parser.given:
            raise TooMuchText(question, self._too_long(old))
        try:
            found = [] if passes else self._compared_with(old)
        except TooMuchText:
            if question is None or passes is not None:
                raise
            raise TooMuchText(question, self._too_long(old)) from None
        if not found:
            for key in self._verdict_keys(old):
                self._parser.compatible.put(key, True, VERDICT_BYTES)
        return found

    def _is_known_to_pass(self, old: Registered) -> bool:
        # The other keys cost reading the row's text, and are made only where the first is not known.
        tried: list[bytes] = []
        for key in self._verdict_keys(old):
            if self._parser.compatible.get(key):
                if tried:
                    self._parser.compatible.put(tried[0], True, VERDICT_BYTES)
                return True
            tried.append(key)
        return False

    def _question(self, old: Registered) -> SchemaQuery | None:
        """Return what is asked elsewhere where many are compared, unless what it refers to is gone."""
        if not self.level.endswith("_TRANSITIVE"):
            return None
        try:
            stored = self._parser.source(self._view, old)
        except InvalidSchema:
            return None
        details = (
            ("key", self._wanted + stored.digest),
            ("policy", self._policy),
            ("readers", READERS[self.level]),
        )
        return SchemaQuery("passes", _source(self._content), stored, details)

    @property
    def _policy(self) -> str:
        return self._config.compatibility_policy or STRICT

    def _too_long(self, old: Registered) -> str:
        return _TOO_LONG % (old.version, old.subject.qualified)

    def _verdict_keys(self, old: Registered) -> Iterator[bytes]:
        """What the verdict on a version is remembered by: its content, text, and model if that is known.

        None of them says what its references lead to.
        """
        row = old.row
        if row.references or row.md5_stored:
            return
        yield self._wanted + row.md5
        source = Source(self._content.schema_type, entities.text(row))
        yield self._wanted + source.digest
        said = self._parser.fingerprints_known(source)
        if said is not None:
            yield self._wanted + said.own

    @cached_property
    def _wanted(self) -> bytes:
        """What is compared with each version, and how."""
        return _wanted(self._content, self.level, self._config)

    def _compared_with(self, old: Registered) -> list[str]:
        too_long = self._too_long(old)
        try:
            new_schema, old_schema = self._content.parsed(self._parser), self._parser.stored(self._view, old)
            found: list[str] = []
            asked: list[TooMuchText] = []
            for reader_is in READERS[self.level]:
                pair = (new_schema, old_schema) if reader_is == "new" else (old_schema, new_schema)
                try:
                    found += self._one_way(pair, reader_is, old)
                except TooMuchText as too_much:
                    # Without its frames, one of which holds this list: only the collector would find them.
                    asked.append(too_much.with_traceback(None))
            if asked:
                raise together(asked)
        except InvalidSchema as error:
            text = f"Unexpected exception during compatibility check: {error}"
            self._tell(results.unexpected(text), None, old)
            return [text]
        except TooMuchText as too_much:
            too_much.refusal = too_long
            raise
        except Exhausted:
            raise errors.UNPROCESSABLE(too_long) from None
        return found

    def _one_way(self, pair: tuple[Schema, Schema], reader_is: Reader, old: Registered) -> list[str]:
        how: dict[str, Any] = {"reader_is": reader_is, "budget": self._budget, "policy": self._policy}
        if not self._explains:
            return [each.text for each in self._parser.differences(*pair, **how)]
        changes = self._parser.changes(*pair, lines=self._lines, **how)
        for each in changes:
            self._tell(each, reader_is, old)
        return [each.message for each in changes if not each.compatible]

    def _tell(self, change: Change, reader_is: Reader | None, old: Registered | None) -> None:
        if self._explains and (not change.compatible or len(self.told) < results.COMPATIBLE_MAX):
            version = None if old is None else old.version
            self.told.append(Told(change, self.level, results.direction(reader_is), version))

    def _reserved_fields(self, latest: Registered | None) -> list[str]:
        reserved = _reserved(self._content.metadata)
        before = _reserved(entities.metadata(latest.row)) if latest is not None else []
        gone = [results.no_longer_reserved(name) for name in before if name not in reserved]
        fields = self._content.parsed(self._parser).field_names() if reserved else ()
        found = [*gone, *(results.reserved_field(name) for name in reserved if name in fields)]
        for each in found:
            self._tell(each, None, latest)
        return [each.message for each in found]


def _what_failed(old: Registered) -> list[str]:
    text = entities.text(old.row)
    if len(text) <= _TEXT_SHOWN_MAX:
        shown = f"{{oldSchema: '{text}'}}"
    else:
        shown = f"{{oldSchema: <truncated> '{text[:_TEXT_SHOWN_MAX]}...'}}"
    return [f"{{oldSchemaVersion: {old.version}}}", shown]


def _reserved(meta: Metadata | None) -> list[str]:
    names = (property_of(meta, RESERVED_PROPERTY) or "").split(",")
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def answer(
    view: View,
    parser: Parser,
    request: Register,
    number: int | None,
    defaults: Defaults,
    *,
    verbose: bool,
    plain: bool = False,
) -> bytes:
    """The answer of the compatibility resources: against one version, or all (``number`` is ``None``).

    A version that is not there is 40402, but a missing subject has no latest version to be incompatible with.
    What cannot be parsed is 42201, or, where ``verbose``, incompatible. Raises those two.
    ``verbose``: with Confluent's messages, and with the changes. ``plain``: for people, in lines of text.
    """
    subject = Subject.parse(request.subject)
    earlier = _earlier(view, subject, number)
    try:
        config, content = _read(view, parser, subject, request, defaults)
        if not verbose and not plain:
            if number is None:
                passes = known_to_pass(parser, content, config, defaults)
                earlier = versions.versions(view, subject, newest_first=True, leave_out=passes)
            return results.bare(check(view, parser, content, earlier, config, defaults))
        verdict = explained(view, parser, content, earlier, config, defaults, lines=plain)
    except RegistryError as error:
        if not (verbose or plain) or error.code != errors.INVALID_SCHEMA.code:
            raise
        verdict = results.of_invalid(error.message)
    return results.text(verdict, subject.qualified) if plain else results.json(verdict)


def _earlier(view: View, subject: Subject, number: int | None) -> Iterable[Registered]:
    if number is None:
        return versions.versions(view, subject, newest_first=True)
    found = versions.named(view, subject, number)
    if found is not None and not found.row.deleted:
        return [found]
    if number == LATEST:
        return []
    raise errors.VERSION_NOT_FOUND(number)


def _read(
    view: View, parser: Parser, subject: Subject, request: Register, defaults: Defaults
) -> tuple[Config, Content]:
    if not request.schema.strip():
        raise errors.INVALID_SCHEMA("Empty schema")
    config = config_in_scope(view, subject, defaults)
    new = request.schema_id < 0 and validates_new_schemas(config, defaults)
    normalize = normalizes(view, subject, request, config)
    fields = checks_fields(view, subject, config, defaults)
    content = registration.read(view, parser, subject, request, new=new, normalize=normalize, fields=fields)
    return config, content
