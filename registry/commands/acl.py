"""``registrar acl …``: what rules permit, and if their file is valid."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from registry.config.loading import Loaded
from registry.domain.model import Subject
from registry.domain.principal import Principal
from registry.security.access import Permission
from registry.security.authorization.explain import explain
from registry.security.authorization.rules import Rules
from registry.security.authorization.rules_file import parse
from registry.security.watched_file import FileError, WatchedFile

from .snapshot import Add

ALLOWED, DENIED, FAILED = 0, 1, 2


def add_commands(commands: Any, add: Add) -> None:
    """Add the commands to ``commands`` by ``add``; see :func:`.snapshot.add_commands`."""
    does = "Examine the file of rules that say who may do what."
    actions = commands.add_parser("acl", help=does, description=does).add_subparsers(
        metavar="COMMAND", required=True
    )
    found = add(
        actions,
        "explain",
        _explain,
        "Print if rules permit an operation, and the rule that decides. Exit status: 0 allowed, 1 denied, "
        "2 the rules cannot be used.",
        (),
    )
    found.add_argument("user", metavar="USER", help="name of the principal")
    found.add_argument(
        "operation",
        metavar="OPERATION",
        choices=[each.value for each in Permission],
        help=f"one of {', '.join(each.value for each in Permission)}",
    )
    found.add_argument("subject", metavar="SUBJECT", help="a subject, or a context as :.ctx:")
    found.add_argument(
        "--groups",
        default="",
        metavar="GROUP,…",
        help="groups of the principal, separated by commas",
    )
    checked = add(
        actions,
        "check",
        _check,
        "Check that a file of rules is valid. Exit status: 0 valid, 2 invalid.",
        (),
    )
    for command in (found, checked):
        command.add_argument(
            "--rules",
            dest="file",
            default="",
            metavar="FILE",
            help="the rules; default: those of the settings",
        )


def _explain(loaded: Loaded, options: dict[str, Any]) -> int:
    rules = _rules(loaded, options)
    if rules is None:
        return FAILED
    groups = frozenset(filter(None, options["groups"].split(",")))
    principal = Principal(options["user"], groups)
    found = explain(rules, principal, Permission(options["operation"]), Subject.parse(options["subject"]))
    print(found.reason)
    return ALLOWED if found.allowed else DENIED


def _check(loaded: Loaded, options: dict[str, Any]) -> int:
    rules = _rules(loaded, options)
    if rules is None:
        return FAILED
    print(f"valid; rules: {len(rules.rules)}")
    return ALLOWED


def _rules(loaded: Loaded, options: dict[str, Any]) -> Rules | None:
    path = options["file"] or loaded.settings.rules
    if not path:
        print("registrar: name the file of rules by --rules FILE", file=sys.stderr)
        return None
    try:
        return WatchedFile(Path(path), parse).value
    except FileError as error:
        print(f"registrar: {error}", file=sys.stderr)
        return None
