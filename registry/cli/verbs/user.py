"""``registrar user …``: edit the file of users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from registry.base.config.loading import Loaded
from registry.cli.exit_status import OK, Refusal
from registry.cli.setting_flags import with_settings
from registry.cli.verb import Verb
from registry.cli.verb_groups import VerbGroup

from . import users_file

_ENTERED = "The password is asked for twice, or read from standard input if that is no terminal."
_STATUS = "Exit status: 0 done, 1 refused."

_Edit = Callable[[Path], None]
_with_users = with_settings("access", shown=("users",))
_name = click.argument("name", metavar="NAME", help="The user's name.")


@click.group(cls=VerbGroup)
def user() -> None:
    """Manage the users file that the setting users names. Running nodes pick up changes within seconds."""


@user.command("add", cls=Verb, help=f"Add a user; creates the file. {_ENTERED}", epilog=_STATUS)
@_name
@click.option("--groups", default="", metavar="GROUP,GROUP", help="Groups of the user.")
@_with_users
def _add(loaded: Loaded, *, name: str, groups: str) -> int:
    listed = [each.strip() for each in groups.split(",") if each.strip()]
    return _edit(loaded, lambda path: users_file.add_user(path, name, listed))


@user.command("passwd", cls=Verb, help=f"Change a user's password. {_ENTERED}", epilog=_STATUS)
@_name
@_with_users
def _passwd(loaded: Loaded, *, name: str) -> int:
    return _edit(loaded, lambda path: users_file.change_password(path, name))


@user.command("remove", cls=Verb, help="Remove a user.", epilog=_STATUS)
@_name
@_with_users
def _remove(loaded: Loaded, *, name: str) -> int:
    return _edit(loaded, lambda path: users_file.remove_user(path, name))


@user.command("list", cls=Verb, help="List the users and their groups.", epilog=_STATUS)
@_with_users
def _list(loaded: Loaded) -> int:
    return _edit(loaded, users_file.print_users)


def _edit(loaded: Loaded, edit: _Edit) -> int:
    if not loaded.settings.users:
        raise Refusal("name the file of users: --users FILE")
    try:
        # A link stays one, so that the file it names is replaced.
        edit(Path(loaded.settings.users).resolve())
    except users_file.EditRefused as error:
        raise Refusal(str(error)) from None
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror}") from None
    return OK
