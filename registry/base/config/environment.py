"""Environment variables whose names begin as settings' do: settings, misspelt ones, and those of others."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

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
# Similarity from which on a name is taken for a misspelt setting.
_MISSPELT = 0.8


class Variables(NamedTuple):
    """Variables sorted by what they are, without their common prefix."""

    given: dict[str, str]  # settings, and names that were meant to be
    ignored: list[str]  # names that cannot have been meant


def sort_variables(environment: Mapping[str, str], prefix: str, known: Collection[str]) -> Variables:
    """Return the variables that begin with ``prefix``; ``known`` has the names of settings.

    A name is taken for a setting if it resembles one or begins with the same word as one, so that a misspelt
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
