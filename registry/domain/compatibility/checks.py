"""Compatibility check of a schema against the existing versions, with the reasons for a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, tee
from typing import TYPE_CHECKING, Any, Final, TypeVar

from registry.domain import errors
from registry.domain.lookup.metadata import RESERVED_PROPERTY, property_of
from registry.domain.lookup.registration import Content
from registry.domain.model import Metadata, Subject
from registry.domain.parsing import querying
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.parsing.stored import source_of
from registry.domain.queries import entities
from registry.domain.queries.scope import (
    Config,
    Defaults,
    validates_fields,
)
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import View
from registry.domain.schemas import LOGICAL, STRICT, Exhausted, InvalidSchema

from . import results
from .results import READERS, ChangeRecorder, CompatibilityResult, MayRead, Reader, Reason
from .verdicts import Verdicts

if TYPE_CHECKING:
    from registry.domain.schemas.logical.findings import Report

_T = TypeVar("_T")
_TEXT_SHOWN_MAX = 10_240
# The versions that a refusal under ``LOGICAL`` reports on.
_LOGICAL_VERSIONS_MAX: Final = 100
_TOO_LONG = (
    "The comparison with version %d of subject '%s' takes too long; the schemas combine too many types"
)
_TOO_LONG_LOGICAL = "The comparison of the logical types takes too long; the schemas combine too many types"


def check(
    view: View,
    memory: SchemaMemory,
    content: Content,
    earlier: Iterable[Registered],
    config: Config,
    defaults: Defaults,
    targets: Sequence[str] = (),
) -> Querying[list[Reason]]:
    """Return the reasons why ``content`` may not follow ``earlier``; empty if it may.

    ``earlier``: newest first, none soft-deleted. The messages are Confluent's: reserved fields, differences
    to the first version that fails, that version's number and text, and the rules that applied.
    ``targets``: engines and table formats whose tables must be able to follow.
    """
    return _Check(view, memory, content, config, defaults, targets=targets).reasons(earlier)


def explain_check(
    view: View,
    memory: SchemaMemory,
    content: Content,
    earlier: Iterable[Registered],
    config: Config,
    defaults: Defaults,
    *,
    targets: Sequence[str] = (),
    lines: bool = False,
    may_read: MayRead | None = None,
) -> Querying[CompatibilityResult]:
    """Return the result of :func:`check` with the same messages, and every change found on the way.

    ``lines``: include the line numbers of the changed parts. ``may_read``: show only what clients see who
    may read the schemas of these subjects.
    """
    shown: dict[str, Any] = {"explains": True, "lines": lines, "may_read": may_read}
    check = _Check(view, memory, content, config, defaults, targets=targets, **shown)
    reasons = yield from check.reasons(earlier)
    return CompatibilityResult(results.visible(reasons, may_read), check.level, check.changes)


class _Check:
    """One check. It takes the same path with and without explanation."""

    def __init__(
        self,
        view: View,
        memory: SchemaMemory,
        content: Content,
        config: Config,
        defaults: Defaults,
        *,
        targets: Sequence[str] = (),
        explains: bool = False,
        lines: bool = False,
        may_read: MayRead | None = None,
    ) -> None:
        self.level: Final = config.compatibility_level or defaults.compatibility
        self._recorder = ChangeRecorder(view, content, self.level, explains=explains, may_read=may_read)
        self.changes: Final = self._recorder.changes
        self._view = view
        self._memory = memory
        self._content = content
        self._config = config
        self._fields_checked = validates_fields(config, defaults)
        self._targets = targets
        self._strict_references = defaults.strict_references
        self._explains = explains
        self._lines = lines
        self._may_read = may_read

    def reasons(self, earlier: Iterable[Registered]) -> Querying[list[Reason]]:
        """Return the reasons of :func:`check`."""
        reasons: list[Reason] = []
        if self._fields_checked:
            earlier, latest = tee(earlier)
            reasons += yield from self._reserved_fields(next(latest, None))
        compared = self._versions_to_compare(earlier)
        if self._targets:
            compared, followed = tee(compared)
            reasons += yield from self._against(compared)
            reasons += yield from self._engines(followed, self._target_reports)
        else:
            reasons += yield from self._against(compared)
        if reasons:
            checked = "true" if self._fields_checked else "false"
            reasons.append(Reason(f"{{validateFields: '{checked}', compatibility: '{self.level}'}}"))
        return reasons

    def _versions_to_compare(self, earlier: Iterable[Registered]) -> Iterator[Registered]:
        group = self._config.compatibility_group
        if group is not None:
            value = property_of(self._content.metadata, group)
            earlier = (each for each in earlier if property_of(entities.metadata(each.row), group) == value)
        return islice(earlier, None if self.level.endswith("_TRANSITIVE") else 1)

    def _against(self, compared: Iterable[Registered]) -> Querying[list[Reason]]:
        if not READERS[self.level]:
            compared = []
        is_logical = self._policy == LOGICAL
        if is_logical:
            compared = [*compared]
        if self.level.endswith("_TRANSITIVE") and not self._explains:
            # Among many versions, first find the one that fails: reasons are larger than a boolean answer.
            failing = yield from querying.first(self._if_failing(each) for each in compared)
            if failing is None:
                compared = []
            elif not is_logical:
                compared = [failing]
        found = (yield from querying.first(self._reasons(each) for each in compared)) or []
        if is_logical:
            found += yield from self._engines(compared, self._logical_reports)
        return found

    def _engines(
        self, compared: Iterable[Registered], reports: Callable[[Source | None], Querying[Sequence[Report]]]
    ) -> Querying[list[Reason]]:
        """Return the objections of lakes and engines to the schema, and to its change from each version."""
        versions = islice(compared, _LOGICAL_VERSIONS_MAX)
        steps = [self._engine_reasons(each, reports) for each in (None, *versions)]
        try:
            found = yield from querying.together(steps, _TOO_LONG_LOGICAL)
        except InvalidSchema as error:
            change = results.not_logical(error)
            self._recorder.add(change, None, None)
            return [Reason(change.message)]
        except Exhausted:
            raise errors.UNPROCESSABLE(_TOO_LONG_LOGICAL) from None
        return [each for reasons in found for each in reasons]

    def _engine_reasons(
        self, old: Registered | None, reports: Callable[[Source | None], Querying[Sequence[Report]]]
    ) -> Querying[list[Reason]]:
        stored: Source | None = None
        shows: frozenset[Subject] | None = frozenset()
        if old is not None:
            if entities.schema_type(old.row) != self._content.schema_type:
                return []
            try:
                stored = source_of(self._view, old, strict=self._strict_references)
                shows = self._recorder.shows(old)
            except InvalidSchema:
                return []
        found = yield from reports(stored)
        for each in found:
            for change in each.changes():
                self._recorder.add(change, results.reader_of(each.direction), old, shows)
        return [Reason(each.message, shows) for each in found]

    def _logical_reports(self, old: Source | None) -> Querying[Sequence[Report]]:
        return querying.logical(self._source, old, READERS[self.level])

    def _target_reports(self, old: Source | None) -> Querying[Sequence[Report]]:
        return querying.targets(self._source, old, self._targets)

    def _if_failing(self, old: Registered) -> Querying[Registered | None]:
        if entities.schema_type(old.row) != self._content.schema_type:
            return old
        if self._verdicts.has_passed(old):
            return None
        try:
            stored = source_of(self._view, old, strict=self._strict_references)
            key = self._verdicts.parameters + stored.digest
            query = querying.passes(self._source, stored, READERS[self.level], self._policy, key)
            (passes,) = yield from self._ask([query], old)
        except InvalidSchema:
            return old
        if not passes:
            return old
        self._verdicts.remember(old)
        return None

    def _reasons(self, old: Registered) -> Querying[list[Reason] | None]:
        kind = entities.schema_type(old.row)
        if kind != self._content.schema_type:
            self._recorder.add(results.other_type(kind, self._content.schema_type), None, old)
            return [Reason(results.OTHER_TYPE)]
        if not self._explains and self._verdicts.has_passed(old):
            return None
        try:
            ways = [self._one_way(reader_is, old) for reader_is in READERS[self.level]]
            found = yield from self._ask(ways, old)
        except InvalidSchema as error:
            text = f"Unexpected exception during compatibility check: {error}"
            self._recorder.add(results.unexpected_change(text), None, old, self._recorder.shows(old))
            return [Reason(text, self._recorder.shows(old)), *_what_failed(old)]
        messages = [each for way in found for each in way]
        if not messages:
            if self._policy != LOGICAL:
                self._verdicts.remember(old)
            return None
        return [*(Reason(each, self._recorder.shows(old)) for each in messages), *_what_failed(old)]

    def _ask(self, steps: list[Querying[_T]], old: Registered) -> Querying[list[_T]]:
        too_long = _TOO_LONG % (old.version, old.subject.qualified)
        try:
            return (yield from querying.together(steps, too_long))
        except Exhausted:
            raise errors.UNPROCESSABLE(too_long) from None

    def _one_way(self, reader_is: Reader, old: Registered) -> Querying[list[str]]:
        new, stored = self._source, source_of(self._view, old, strict=self._strict_references)
        reader, writer = (new, stored) if reader_is == "new" else (stored, new)
        how: dict[str, Any] = {"reader_is": reader_is, "policy": self._policy}
        if not self._explains:
            differences = yield from querying.differences(reader, writer, **how)
            return [each.text for each in differences]
        changes = yield from querying.changes(reader, writer, lines=self._lines, **how)
        shows = self._recorder.shows(old) if self._may_read is not None else None
        for each in changes:
            self._recorder.add(each, reader_is, old, shows)
        return [each.message for each in changes if not each.compatible]

    @cached_property
    def _source(self) -> Source:
        return self._content.source

    @cached_property
    def _verdicts(self) -> Verdicts:
        return Verdicts(self._memory, self._content, self.level, self._config)

    @property
    def _policy(self) -> str:
        return self._config.compatibility_policy or STRICT

    def _reserved_fields(self, latest: Registered | None) -> Querying[list[Reason]]:
        reserved = _reserved_names(self._content.metadata)
        before = _reserved_names(entities.metadata(latest.row)) if latest is not None else []
        gone = [results.no_longer_reserved(name) for name in before if name not in reserved]
        fields = (yield from querying.field_names(self._source)) if reserved else ()
        found = [*gone, *(results.reserved_field(name) for name in reserved if name in fields)]
        for each in found:
            self._recorder.add(each, None, latest)
        return [Reason(each.message) for each in found]


def _what_failed(old: Registered) -> list[Reason]:
    text = entities.text(old.row)
    if len(text) <= _TEXT_SHOWN_MAX:
        shown = f"{{oldSchema: '{text}'}}"
    else:
        shown = f"{{oldSchema: <truncated> '{text[:_TEXT_SHOWN_MAX]}...'}}"
    return [Reason(f"{{oldSchemaVersion: {old.version}}}"), Reason(shown, frozenset([old.subject]))]


def _reserved_names(meta: Metadata | None) -> list[str]:
    names = (property_of(meta, RESERVED_PROPERTY) or "").split(",")
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))
