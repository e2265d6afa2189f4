"""A verb of the command line: a click command whose help fits one screen.

Options belong to sections. Options that few people need are only in ``--help-all``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import click

_OPTIONS = "Options"


class SectionOption(click.Option):
    """An option with the title of its section in the help; ``rare`` ones are only in ``--help-all``."""

    def __init__(self, *words: Any, section: str = _OPTIONS, rare: bool = False, **rest: Any) -> None:
        super().__init__(*words, **rest)
        self.section, self.rare = section, rare

    def rare_text(self) -> str:
        """Return the help for ``--help-all``, which may say more."""
        return self.help or ""


class Verb(click.Command):
    """A click command with sections of options and, if some options are rare, ``--help-all``."""

    def __init__(self, *words: Any, **rest: Any) -> None:
        super().__init__(*words, **rest)
        if any(option.rare for option in self._section_options()):
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_show_everything,
                    help="Show this message with all settings, their allowed values and defaults, and exit.",
                )
            )

    def _section_options(self) -> list[SectionOption]:
        return [param for param in self.params if isinstance(param, SectionOption)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section; leave out rare ones unless everything is wanted."""
        everything = bool(ctx.meta.get(_EVERYTHING))
        shown = [each for each in self.get_params(ctx) if everything or not getattr(each, "rare", False)]
        for title, records in _by_section(ctx, shown, everything=everything).items():
            with formatter.section(title):
                formatter.write_dl(records)


_EVERYTHING = f"{__name__}.everything"


def _show_everything(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given and not context.resilient_parsing:
        context.meta[_EVERYTHING] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def _by_section(
    context: click.Context, parameters: Iterable[click.Parameter], *, everything: bool
) -> Mapping[str, list[tuple[str, str]]]:
    """Return the help of each option by the title of its section; options without a section come first."""
    found: dict[str, list[tuple[str, str]]] = {_OPTIONS: []}
    for title, options in groupby(parameters, lambda each: getattr(each, "section", _OPTIONS)):
        for option in options:
            record = None if isinstance(option, click.Argument) else option.get_help_record(context)
            if record is None:
                continue
            if everything and isinstance(option, SectionOption):
                record = (record[0], option.rare_text())
            found.setdefault(title, []).append(record)
    return {title: records for title, records in found.items() if records}
