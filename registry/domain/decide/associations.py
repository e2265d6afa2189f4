"""What associations of subjects with resources, written by others, forbid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from registry.domain import errors, rows
from registry.domain.model import Reference, Subject
from registry.domain.rows import View


def check_not_strong(view: View, subject: Subject, references: Sequence[Reference]) -> None:
    """Refuse references to subjects that a resource owns (42205)."""
    for each in references:
        target = Subject.within(subject.context, each.subject)
        if any(found.get("lifecycle") == "STRONG" for found in _associations(view, target)):
            refusal = f"Subject '{target.qualified}' has a strong association and cannot be referenced"
            raise errors.NOT_PERMITTED(refusal)


def check_none(view: View, subject: Subject) -> None:
    """Refuse to delete a subject that has associations (40904)."""
    if next(_associations(view, subject), None) is not None:
        raise errors.ASSOCIATION_EXISTS(subject.qualified)


def _associations(view: View, subject: Subject) -> Iterator[dict[str, Any]]:
    for _, value in rows.scan(view, rows.scope_key(rows.ASSOCIATION, subject)):
        yield orjson.loads(value)
