"""Policies: which schemas may be registered under which subjects, by whom, and how many.

Policies come from a file of tables (:func:`parse`). If several tables cover a subject and set a limit, the
one with the most specific pattern counts, for each limit separately. Registered schemas are found regardless
of policies.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .model import Subject
from .principal import Principal, kind_and_name, names_in_rules
from .schemas.lint import RULES
from .subject_patterns import Pattern, parse_pattern
from .target_names import parse_targets

# The maximum length of a file, and the maximum number of its tables.
TEXT_MAX: Final = 1 << 20
TABLES_MAX: Final = 10_000
_GROUP: Final = "group:"


class Policy(NamedTuple):
    """Permissions and limits for registrations of one principal under one subject."""

    may_create: bool = True
    may_register: bool = True
    # 0: no limit.
    versions_max: int = 0
    # Names of lint rules that a new schema must not break, and of those that it is warned about.
    lint_errors: tuple[str, ...] = ()
    lint_warnings: tuple[str, ...] = ()
    # Engines and table formats whose tables must be able to follow a new schema, and those that only warn.
    targets: tuple[str, ...] = ()
    target_warnings: tuple[str, ...] = ()


_ANYTHING: Final = Policy()


class PolicyError(ValueError):
    """Raised for an invalid file; the text names the table and the key, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Principals:
    """Principals that a table permits something: names, groups as ``group:NAME``, or ``*`` for all.

    Names of both may have a kind, as in ``user:alice`` and ``group:token:ops`` (:func:`.kind_and_name`).
    """

    names: frozenset[str]

    def include(self, principal: Principal, kind: str) -> bool:
        """Return true if the principal of this kind, or one of its groups, is among them."""
        if "*" in self.names:
            return True
        groups = (_GROUP + name for group in principal.groups for name in names_in_rules(group, kind))
        if not principal.name:
            return not self.names.isdisjoint(groups)
        own = (*names_in_rules(principal.name, kind), *((f"{kind}:*",) if kind else ()))
        # A name that looks like a group does not stand for it.
        own = tuple(each for each in own if not each.startswith(_GROUP))
        return not self.names.isdisjoint((*own, *groups))


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """One table of the file; ``None`` for a limit that it does not set."""

    subjects: tuple[Pattern, ...]
    create: Principals | None = None
    register: Principals | None = None
    versions_max: int | None = None
    lint_errors: tuple[str, ...] | None = None
    lint_warnings: tuple[str, ...] | None = None
    targets: tuple[str, ...] | None = None
    target_warnings: tuple[str, ...] | None = None

    def match(self, subject: Subject) -> Pattern | None:
        """Return the most specific pattern that covers ``subject``."""
        found = [each for each in self.subjects if each.covers(subject)]
        return max(found, key=lambda each: each.specificity, default=None)


@dataclass(frozen=True, slots=True)
class Policies:
    """All tables of a file, and the limit on a principal's writes."""

    tables: tuple[PolicyTable, ...] = ()
    # Writes of one principal per minute, over all subjects; 0: no limit.
    writes_per_minute: int = 0

    def policy(self, subject: Subject, principal: Principal, kind: str = "") -> Policy:
        """Return what the principal of a kind may register under ``subject``."""
        if not self.tables:
            return _ANYTHING
        covering = [(pattern, each) for each in self.tables if (pattern := each.match(subject)) is not None]
        if not covering:
            return _ANYTHING
        covering.sort(key=lambda pair: pair[0].specificity, reverse=True)
        tables = [each for _, each in covering]
        create = _first(each.create for each in tables)
        register = _first(each.register for each in tables)
        return Policy(
            may_create=create is None or create.include(principal, kind),
            may_register=register is None or register.include(principal, kind),
            versions_max=_first(each.versions_max for each in tables) or 0,
            lint_errors=_first(each.lint_errors for each in tables) or (),
            lint_warnings=_first(each.lint_warnings for each in tables) or (),
            targets=_first(each.targets for each in tables) or (),
            target_warnings=_first(each.target_warnings for each in tables) or (),
        )


NO_POLICIES: Final = Policies()


def _first(values: Iterable[Any]) -> Any:
    return next((each for each in values if each is not None), None)


def parse(text: str) -> Policies:
    """Parse a file of policies.

    ::

        writes_per_minute = 600       # of one principal; more are refused with 429

        [[policy]]
        subjects = ["orders-*"]       # names, prefixes, contexts as ``:.name:*``, or ``*``
        create = ["alice", "group:a"] # who may create subjects; default: who may write
        register = []                 # who may register versions; here nobody
        versions_max = 200
        lint_errors = ["docs"]        # names of rules, see :mod:`.schemas.lint`
        lint_warnings = ["namespace"]
        targets = ["delta"]           # names of targets, see :mod:`.schemas.logical.engines`
        target_warnings = ["duckdb"]

    Raises :class:`PolicyError`.
    """
    if len(text) > TEXT_MAX:
        raise PolicyError(f"the file is longer than {TEXT_MAX} characters")
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # Also for a number with too many digits.
        raise PolicyError(f"not TOML: {error}") from None
    _check_keys("the file", value, {"policy", "writes_per_minute"})
    tables = value.get("policy", [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise PolicyError("policy must be an array of tables, [[policy]]")
    if len(tables) > TABLES_MAX:
        raise PolicyError(f"there are more than {TABLES_MAX} tables")
    rate = _count("the file", value, "writes_per_minute") or 0
    return Policies(tuple(_table(number, each) for number, each in enumerate(tables, 1)), rate)


def _table(number: int, value: dict[str, Any]) -> PolicyTable:
    where = f"policy {number}"
    _check_keys(where, value, _KEYS)
    if "subjects" not in value:
        raise PolicyError(f"{where}: subjects is missing")
    return PolicyTable(
        **{key: _KEYS[key](where, value, key) for key in value if key != "subjects"},
        subjects=_patterns(where, value),
    )


def _check_keys(where: str, value: dict[str, Any], known: Collection[str]) -> None:
    unknown = sorted(value.keys() - set(known))
    if unknown:
        raise PolicyError(f"{where}: unknown key {unknown[0]}; allowed are {', '.join(sorted(known))}")


def _patterns(where: str, value: dict[str, Any]) -> tuple[Pattern, ...]:
    texts = _texts(where, value, "subjects")
    if not texts:
        raise PolicyError(f"{where}: subjects is empty")
    try:
        return tuple(parse_pattern(each) for each in texts)
    except ValueError as error:
        raise PolicyError(f"{where}: subjects: {error}") from None


def _texts(where: str, value: dict[str, Any], key: str) -> list[str]:
    found = value[key]
    if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
        raise PolicyError(f"{where}: {key} must be an array of strings that are not empty")
    return found


def _principals(where: str, value: dict[str, Any], key: str) -> Principals:
    names = _texts(where, value, key)
    for each in names:
        kind, name = kind_and_name(each.removeprefix(_GROUP))
        if not name:
            raise PolicyError(f"{where}: {key}: {each!r} needs a name after {kind or _GROUP[:-1]}:")
    return Principals(frozenset(names))


def _count(where: str, value: dict[str, Any], key: str) -> int | None:
    found = value.get(key)
    if found is not None and (type(found) is not int or not 1 <= found <= 1_000_000):
        raise PolicyError(f"{where}: {key} must be a whole number from 1 to 1000000")
    return found


def _rules(where: str, value: dict[str, Any], key: str) -> tuple[str, ...]:
    names = _texts(where, value, key)
    for each in names:
        if each not in RULES:
            raise PolicyError(f"{where}: {key}: unknown rule {each}; there are {', '.join(RULES)}")
    return tuple(dict.fromkeys(names))


def _targets(where: str, value: dict[str, Any], key: str) -> tuple[str, ...]:
    try:
        return parse_targets(_texts(where, value, key))
    except ValueError as error:
        raise PolicyError(f"{where}: {key}: {error}") from None


_KEYS: Final[dict[str, Callable[[str, dict[str, Any], str], Any]]] = {
    "subjects": _texts,
    "create": _principals,
    "register": _principals,
    "versions_max": _count,
    "lint_errors": _rules,
    "lint_warnings": _rules,
    "targets": _targets,
    "target_warnings": _targets,
}
