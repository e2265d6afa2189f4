"""The argument that names a subject or a context; without it, a verb means everything."""

from __future__ import annotations

import sys

import click
from click.core import ParameterSource

from .exit_status import Failure, Refusal


def _require_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    # A variable of a script that is not set must not change everything.
    name = parameter.name or ""
    if not value and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        raise click.BadParameter("it is empty; leave it out to mean everything", context, parameter)
    return value


scope_argument = click.argument("subject", default="", callback=_require_name)
yes_option = click.option("--yes", is_flag=True, help="Do not ask before changes to the whole registry.")


def confirm_everything(subject: str, question: str, *, yes: bool) -> None:
    """Ask before something is done to all subjects; end the verb if nobody says yes."""
    if subject or yes:
        return
    if not sys.stdin.isatty():
        raise Failure("this concerns the whole registry: name a subject or a context, or confirm it by --yes")
    if not click.confirm(question, err=True):
        raise Refusal("nothing was changed")
