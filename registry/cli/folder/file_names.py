"""File names for subjects, safe on every file system, whatever the subjects are called."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote_to_bytes

# Together with a hash and an extension below the 255 bytes that file systems allow.
_BYTES_MAX: Final = 200
# The empty subject; no other name is written like this.
_EMPTY: Final = "%"
# Names that Windows reserves for devices.
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def file_names(subjects: Iterable[str]) -> dict[str, str]:
    """Return a file name without an extension for each subject; no two differ only in case.

    Names that had to be cut or that would clash end in a hash; :func:`subject_of` cannot read these.
    """
    quoted = {subject: _quote(subject) for subject in subjects}
    count = Counter(name.casefold() for name in quoted.values())
    return {
        subject: _hash(subject, name) if count[name.casefold()] > 1 or len(name) > _BYTES_MAX else name
        for subject, name in quoted.items()
    }


def subject_of(name: str) -> str | None:
    """Return the subject that a file name without its extension stands for; ``None`` if it is cut."""
    if name == _EMPTY:
        return ""
    if "%~" in name:
        return None
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeError:  # also of a name on disk that is not UTF-8
        return None


def _quote(subject: str) -> str:
    name = quote(subject, safe=" @+=,!()'") or _EMPTY
    # Hidden files, parent folders, and names of versions.
    if name.startswith((".", " ")) or name.isdecimal() or _DEVICES.match(name):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    # Windows drops blanks and full stops at the end.
    if name.endswith((".", " ")):
        name = f"{name[:-1]}%{ord(name[-1]):02X}"
    return name


def _hash(subject: str, name: str) -> str:
    return f"{name[:_BYTES_MAX]}%~{hashlib.sha256(subject.encode()).hexdigest()[:16]}"
