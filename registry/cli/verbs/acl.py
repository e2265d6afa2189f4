"""``registrar acl …``: what rules permit, and if their file is valid."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from registry.base.config.loading import Loaded, Settings
from registry.cli.output import FAILED, OK, REFUSED
from registry.cli.setting_flags import with_settings
from registry.cli.verb import Verb, VerbGroup
from registry.domain.model import Subject
from registry.domain.principal import KINDS, Principal, kind_and_name
from registry.security.authorization.rules import ANYONE, Rules, explain
from registry.security.authorization.rules_file import parse
from registry.security.gate import Permission
from registry.security.watched_file import FileError, WatchedFile

_SHOWN = 10  # names that a warning lists


@click.group(cls=VerbGroup)
def acl() -> None:
    """Explain and check the access rules file."""


_rules_option = click.option(
    "--rules", "file", default="", metavar="FILE", help="The rules [default: those of the settings]."
)


@acl.command("explain", cls=Verb, epilog="Exit status: 0 allowed, 1 denied, 2 the rules cannot be used.")
@click.argument("user", metavar="USER", help="Name of the principal, or its kind too: user:, token:, cert:.")
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
    """Print whether the rules permit an operation, and which rule decides."""
    rules = _rules(loaded, file)
    if rules is None:
        return FAILED
    kind, name = kind_and_name(user)
    principal = Principal(name, frozenset(filter(None, groups.split(","))))
    asked = Permission(operation), Subject.parse(subject)
    found = {each: explain(rules, principal, *asked, each) for each in ([kind] if kind else KINDS)}
    if len(set(found.values())) == 1:
        print(next(iter(found.values())).reason)
    else:
        print("\n".join(f"{each}:{name}: {explained.reason}" for each, explained in found.items()))
    return OK if all(each.allowed for each in found.values()) else REFUSED


@acl.command("check", cls=Verb, epilog="Exit status: 0 valid, 2 invalid.")
@_rules_option
@with_settings(refused=FAILED)
def _check(loaded: Loaded, *, file: str) -> int:
    """Validate a rules file."""
    rules = _rules(loaded, file)
    if rules is None:
        return FAILED
    print(f"valid; rules: {len(rules.rules)}")
    unclear = _of_several_kinds(loaded.settings, rules)
    if unclear:
        named = ", ".join(map(repr, unclear[:_SHOWN])) + (", …" if len(unclear) > _SHOWN else "")
        print(
            f"registrar: warning: each of these names can belong to several principals: {named}",
            file=sys.stderr,
        )
        print(f"name the kind, as in 'user:{unclear[0]}'; kinds: {', '.join(KINDS)}", file=sys.stderr)
    return OK


def _of_several_kinds(settings: Settings, rules: Rules) -> list[str]:
    """Return the names without a kind if principals can authenticate in several ways."""
    ways = (bool(settings.users), bool(settings.jwt_jwks), settings.tls_client_auth != "none")
    if sum(ways) < 2:
        return []
    return sorted(each for each in rules.names() if each != ANYONE and not kind_and_name(each)[0])


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
