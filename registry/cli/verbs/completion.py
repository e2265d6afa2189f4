"""``registrar completion``: completion of verbs and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from registry.cli.output import OK
from registry.cli.program import COMPLETE_VARIABLE, NAME
from registry.cli.verb import Verb

_SHELLS = {
    "bash": 'eval "$(registrar completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(registrar completion zsh)"       # in ~/.zshrc',
    "fish": "registrar completion fish | source      # in ~/.config/fish/config.fish",
}
_INSTALL = "\b\nTo install it:\n" + "".join(f"  {line}\n" for line in _SHELLS.values())


@click.command(cls=Verb, epilog=_INSTALL)
@click.argument("shell", type=click.Choice(list(_SHELLS)), metavar="SHELL")
def completion(shell: str) -> int:
    """Print the completion script for SHELL: bash, zsh or fish."""
    kind = get_completion_class(shell)
    assert kind is not None
    program = click.get_current_context().find_root().command
    print(kind(program, {}, NAME, COMPLETE_VARIABLE).source())
    return OK
