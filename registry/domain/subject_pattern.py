"""Patterns of subjects, as rules and policies name them: a literal, a prefix, or a context."""

from __future__ import annotations

from typing import NamedTuple

from .model import Subject


class SubjectPattern(NamedTuple):
    """A pattern; ``context`` is ``None`` for ``*``, which is every subject of every context."""

    context: str | None
    name: str
    is_prefix: bool

    @classmethod
    def parse(cls, text: str) -> SubjectPattern:
        """Parse ``orders-value``, ``orders-*``, ``:.ctx:orders-*``, ``:.ctx:*`` or ``*``.

        Raises :class:`ValueError` if the text is empty or has an asterisk before its end.
        """
        if text == "*":
            return cls(None, "", is_prefix=True)
        body, is_prefix = text.removesuffix("*"), text.endswith("*")
        if not text or "*" in body:
            raise ValueError(f"{text!r} is not a name, a prefix with a final *, or a context like :.name:*")
        subject = Subject.parse(body)
        if is_prefix and body.startswith(":.") and body.count(":") < 2:
            raise ValueError(f"{text!r} has no colon after its context; all of a context is :.name:*")
        return cls(subject.context, subject.name, is_prefix)

    def matches(self, subject: Subject) -> bool:
        """Return true if the pattern covers ``subject``; a whole context is covered by all of its names."""
        if self.context is None:
            return True
        if self.context != subject.context:
            return False
        return subject.name.startswith(self.name) if self.is_prefix else subject.name == self.name

    @property
    def specificity(self) -> tuple[bool, int, bool]:
        """Orders patterns that cover one subject: the greatest says most exactly which."""
        return self.context is not None, len(self.name), not self.is_prefix
