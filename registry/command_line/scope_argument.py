"""The argument that names a subject or a context; without it, a verb means everything."""

from __future__ import annotations

import click
from click.core import ParameterSource


def _named(context: click.Context, parameter: click.Parameter, value: str) -> str:
    # A variable of a script that is not set must not change everything.
    name = parameter.name or ""
    if not value and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        raise click.BadParameter("it is empty; leave it out to mean everything", context, parameter)
    return value


scope_argument = click.argument("subject", default="", callback=_named)
