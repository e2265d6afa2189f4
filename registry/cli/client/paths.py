"""Paths of a registry's resources, and the names by which people give them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote

from .errors import BadAddress

_CONTEXT = re.compile(r":\.[^:]*:")
_VERSION = re.compile(r"[0-9]{1,10}|latest")
LATEST = "latest"
# As plain segments of a path, clients take them for this folder and its parent.
_DOTS: Final = {".": "%2E", "..": "%2E%2E"}


class VersionName(NamedTuple):
    """A subject, and one of its versions by number or as ``latest``; empty if none is named."""

    subject: str
    version: str

    @classmethod
    def parse(cls, text: str) -> VersionName:
        """Parse ``SUBJECT`` or ``SUBJECT:VERSION``; ``:.ctx:SUBJECT`` names a context and no version."""
        context = _CONTEXT.match(text)
        begin = context.end() if context else 0
        subject, _, version = text[begin:].rpartition(":")
        if subject and _VERSION.fullmatch(version):
            return cls(text[:begin] + subject, version)
        return cls(text, "")

    def __str__(self) -> str:
        return f"{self.subject}:{self.version}" if self.version else self.subject


def quoted(name: str) -> str:
    """Return a name as one segment of a path. Raises :class:`.errors.BadAddress`."""
    try:
        return _DOTS.get(name) or quote(name, safe="")
    except UnicodeEncodeError:
        raise BadAddress(f"the name {name!r} is not UTF-8") from None


def context_prefix(context: str) -> str:
    """Return the beginning of qualified names, ``:.ctx:``, for a context as people give it."""
    name = context.strip(":").lstrip(".")
    return f":.{name}:" if name else ""


def subject_path(subject: str) -> str:
    """Return the path of a subject."""
    return f"/subjects/{quoted(subject)}"


def version_path(subject: str, version: int | str) -> str:
    """Return the path of a version."""
    return f"{subject_path(subject)}/versions/{version}"


def scope_path(kind: str, subject: str) -> str:
    """Return the path of the config or mode of a subject, or of everything if ``subject`` is empty."""
    return f"/{kind}/{quoted(subject)}" if subject else f"/{kind}"
