"""Compatibility of a schema with the versions of a subject, as the API answers it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.lookup.find import content_under
from registry.domain.lookup.registration import Content
from registry.domain.model import LATEST, Subject
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying
from registry.domain.queries import versions
from registry.domain.queries.scope import (
    Config,
    ConfiguredSubject,
    Defaults,
    effective_config,
    validates_new_schemas,
)
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import View

from . import printing, results
from .checks import check, explain_check
from .results import CompatibilityResult, MayRead
from .verdicts import known_to_pass


def answer(
    view: View,
    memory: SchemaMemory,
    place: ConfiguredSubject,
    request: Register,
    number: int | None,
    defaults: Defaults,
    *,
    verbose: bool,
    plain: bool = False,
    level: str | None = None,
    targets: Sequence[str] = (),
    compared: Sequence[Registered] | None = None,
    about_compared: str = "",
    may_read: MayRead | None = None,
) -> Querying[bytes]:
    """Return the answer of the compatibility resources: against one version, or all (``number`` is ``None``).

    A missing version is 40402, but a missing subject has no latest version to be incompatible with. An
    invalid schema is 42201, or, if ``verbose``, incompatible. Raises those two.
    ``verbose``: include Confluent's messages and the changes. ``plain``: return a readable text report.
    ``level``: the level to check at instead of the one in force. ``targets``: engines and table formats whose
    tables must be able to follow. ``compared``: the versions to compare with instead, newest first.
    ``about_compared``: which those are, in words. ``may_read``: says which subjects' schemas the client may
    read, if not all.
    """
    subject = place.subject
    earlier = _earlier(view, subject, number) if compared is None else compared
    try:
        if not verbose and not plain:
            config, content = yield from _read(view, place, request, defaults, level)
            if number is None and compared is None:
                passes = known_to_pass(memory, content, config, defaults, targets)
                earlier = versions.versions(view, subject, newest_first=True, leave_out=passes)
            reasons = yield from check(view, memory, content, earlier, config, defaults, targets)
            return printing.bare(reasons)
        how: dict[str, Any] = {"lines": plain, "level": level, "targets": targets, "may_read": may_read}
        how["compared"] = compared
        result = yield from explain(view, memory, place, request, number, defaults, **how)
        result = result._replace(compared=about_compared)
    except RegistryError as error:
        if not (verbose or plain) or error.code != errors.INVALID_SCHEMA.code:
            raise
        result = results.of_invalid(error.message)
    return printing.text(result, subject.qualified) if plain else printing.json(result)


def explain(
    view: View,
    memory: SchemaMemory,
    place: ConfiguredSubject,
    request: Register,
    number: int | None,
    defaults: Defaults,
    *,
    lines: bool = False,
    level: str | None = None,
    targets: Sequence[str] = (),
    compared: Sequence[Registered] | None = None,
    may_read: MayRead | None = None,
) -> Querying[CompatibilityResult]:
    """Return the result and every change, against one version, or all (``number`` is ``None``).

    ``lines``: include the line numbers of the changed parts. ``level``, ``targets``, ``compared`` and
    ``may_read``: as for :func:`answer`. Raises 40402 and 42201.
    """
    earlier = _earlier(view, place.subject, number) if compared is None else compared
    config, content = yield from _read(view, place, request, defaults, level)
    how: dict[str, Any] = {"targets": targets, "lines": lines, "may_read": may_read}
    return (yield from explain_check(view, memory, content, earlier, config, defaults, **how))


def _earlier(view: View, subject: Subject, number: int | None) -> Iterable[Registered]:
    if number is None:
        return versions.versions(view, subject, newest_first=True)
    found = versions.version_numbered(view, subject, number)
    if found is not None and not found.row.deleted:
        return [found]
    if number == LATEST:
        return []
    raise errors.VERSION_NOT_FOUND(number)


def _read(
    view: View, place: ConfiguredSubject, request: Register, defaults: Defaults, level: str | None
) -> Querying[tuple[Config, Content]]:
    if not request.schema.strip():
        raise errors.INVALID_SCHEMA("Empty schema")
    subject, config = place.subject, effective_config(view, place, defaults)
    if level is not None:
        config = msgspec.structs.replace(config, compatibility_level=level)
    new = request.schema_id < 0 and validates_new_schemas(config, defaults)
    content = yield from content_under(view, subject, request, config, defaults, new=new)
    return config, content
