"""Sources of settings: environment variables, and files that hold secrets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

_CHARACTERS_MAX = 64 * 1024  # a longer file is not that of a secret
_BYTES_MAX = 4 * _CHARACTERS_MAX


def secret_of(content: bytes) -> str:
    """Return the secret in the content of a file, without a line break at its end.

    Raises :class:`ValueError` if the content cannot be a secret.
    """
    secret = content.decode().removesuffix("\n").removesuffix("\r")
    if not secret or len(secret) > _CHARACTERS_MAX:
        raise ValueError
    return secret


def secret_in(file: str | Path) -> str:
    """Return the secret in a file. Raises :class:`OSError`, and :class:`ValueError` as :func:`secret_of`."""
    with Path(file).open("rb") as opened:
        return secret_of(opened.read(_BYTES_MAX + 1))


def current_secret(secret: str, file: str) -> str:
    """Return the secret that ``file`` holds now.

    ``secret`` was read from it at the start, and is returned while the file cannot be read, or if no file is
    named.
    """
    if not file:
        return secret
    try:
        return secret_in(file)
    except (OSError, ValueError):
        return secret


# Variables of the commands that are clients of a registry.
CLIENT_NAMES = frozenset(
    {"URL", "CA", "CERTIFICATE", "KEY"}
    | {f"{name}{side}" for name in ("USER", "PASSWORD", "TOKEN") for side in ("", "_FROM", "_TO")}
)

# Kubernetes makes these of the name of each service in the namespace, such as "registrar-metrics".
_SERVICE_LINK = re.compile(
    r"(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_PORT = re.compile(r"(\w+_)?PORT")
# Similarity from which on a name is taken for a misspelled setting.
_MISSPELT = 0.8


class Variables(NamedTuple):
    """Variables sorted by what they are, without their common prefix."""

    given: dict[str, str]  # settings, and names that were meant to be
    ignored: list[str]  # names that cannot have been meant


def sort_variables(environment: Mapping[str, str], prefix: str, known: Collection[str]) -> Variables:
    """Return the variables that begin with ``prefix``; ``known`` has the names of settings.

    A name is taken for a setting if it resembles one or begins with the same word as one, so a misspelled
    setting is an error while variables that others made for purposes of their own do not matter.
    """
    words = {name.partition("_")[0] for name in known}
    sorted_ = Variables({}, [])
    for variable, value in sorted(environment.items()):
        name = variable.removeprefix(prefix)
        if name == variable or name in CLIENT_NAMES:
            continue
        if not _is_service_link(name, value) and _is_meant(name.lower(), known, words):
            sorted_.given[name] = value
        else:
            sorted_.ignored.append(variable)
    return sorted_


def _is_service_link(name: str, value: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(name) or (_SERVICE_PORT.fullmatch(name) and "://" in value))


def _is_meant(name: str, known: Collection[str], words: Collection[str]) -> bool:
    return name.partition("_")[0] in words or bool(difflib.get_close_matches(name, known, 1, _MISSPELT))
