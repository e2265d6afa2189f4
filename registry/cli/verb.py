"""Verbs of the command line and groups of them, imported when they are used.

Options belong to sections. Options that few people need are only in ``--help-all``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

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


_WIDTH_MAX = 100


class VerbRow(NamedTuple):
    """A row of the table of verbs."""

    section: str  # of the help
    name: str
    place: str  # MODULE:NAME of the click command
    does: str  # in one line


class LazyVerbs(click.Group):
    """The verbs of a table. Nothing is imported until one is used: the help needs only the table."""

    def __init__(self, rows: Sequence[VerbRow], **rest: Any) -> None:
        # Verbs and groups below it inherit both.
        settings = {"max_content_width": _WIDTH_MAX, "help_option_names": ["-h", "--help"]}
        super().__init__(context_settings=settings, **rest)
        self._rows = {row.name: row for row in rows}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        row = self._rows.get(cmd_name)
        if row is None:
            return None
        module, _, name = row.place.partition(":")
        found = getattr(import_module(module), name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb that the arguments begin with; suggest similar ones if there is none."""
        if args[0] not in self._rows and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(args[0], possibilities=self._rows, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, section by section."""
        width = max(map(len, self._rows))
        for title in dict.fromkeys(row.section for row in self._rows.values()):
            with formatter.section(title):
                rows = (row for row in self._rows.values() if row.section == title)
                formatter.write_dl([(f"{row.name:<{width}}", row.does) for row in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a verb."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        found = (row for row in self._rows.values() if row.name.startswith(incomplete))
        return [CompletionItem(row.name, help=row.does) for row in found]


class VerbGroup(click.Group):
    """A group of verbs in one module, such as ``registrar snapshot``, in the order of their definition."""

    command_class = Verb

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each verb's help; click would cut it to the width of the screen."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, _first_sentence(self.commands[name].help or "")) for name in self.list_commands(ctx)]
            )


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph, maxsplit=1)[0]
