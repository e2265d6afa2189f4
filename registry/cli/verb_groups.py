"""Groups of verbs that are imported when they are used, so that the command line starts fast."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from .verb import Verb

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
