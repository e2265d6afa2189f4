"""``registrar acl …``: what rules permit, and if their file is valid."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from registry.command_line.exit_status import FAILED, OK, REFUSED
from registry.command_line.setting_flags import with_settings
from registry.command_line.verb import Verb
from registry.command_line.verbs import VerbGroup
from registry.config.loading import Loaded
from registry.domain.model import Subject
from registry.domain.principal import Principal
from registry.security.access import Permission
from registry.security.authorization.rules import Rules, explain
from registry.security.authorization.rules_file import parse
from registry.security.watched_file import FileError, WatchedFile


@click.group(cls=VerbGroup)
def acl() -> None:
    """Examine the file of rules that say who may do what."""


_rules_option = click.option(
    "--rules", "file", default="", metavar="FILE", help="The rules [default: those of the settings]."
)


@acl.command("explain", cls=Verb, epilog="Exit status: 0 allowed, 1 denied, 2 the rules cannot be used.")
@click.argument("user", metavar="USER", help="Name of the principal.")
@click.argument(
    "operation",
    type=click.Choice([each.value for each in Permission]),
    metavar="OPERATION",
    help=f"One of {', '.join(each.value for each in Permission)}.",
)
@click.argument("subject", metavar="SUBJECT", help="A subject, or a context as :.ctx:")
@click.option("--groups", default="", metavar="GROUP,…", help="Groups of the principal, separated by commas.")
@_rules_option
@with_settings(refused=FAILED)
def _explain(loaded: Loaded, *, user: str, operation: str, subject: str, groups: str, file: str) -> int:
    """Print if rules permit an operation, and the rule that decides."""
    rules = _rules(loaded, file)
    if rules is None:
        return FAILED
    principal = Principal(user, frozenset(filter(None, groups.split(","))))
    found = explain(rules, principal, Permission(operation), Subject.parse(subject))
    print(found.reason)
    return OK if found.allowed else REFUSED


@acl.command("check", cls=Verb, epilog="Exit status: 0 valid, 2 invalid.")
@_rules_option
@with_settings(refused=FAILED)
def _check(loaded: Loaded, *, file: str) -> int:
    """Check that a file of rules is valid."""
    rules = _rules(loaded, file)
    if rules is None:
        return FAILED
    print(f"valid; rules: {len(rules.rules)}")
    return OK


def _rules(loaded: Loaded, file: str) -> Rules | None:
    path = file or loaded.settings.rules
    if not path:
        print("registrar: name the file of rules by --rules FILE", file=sys.stderr)
        return None
    try:
        return WatchedFile(Path(path), parse).value
    except FileError as error:
        print(f"registrar: {error}", file=sys.stderr)
        return None
