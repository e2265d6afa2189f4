"""Settings as flags of a verb: every setting of some groups, of which the help shows the important ones."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

from registry.base.config.loading import (
    CONFIG_VARIABLE,
    PROPERTIES_VARIABLE,
    Setting,
    SettingsError,
    load,
    table,
)
from registry.base.config.setting_types import SWITCH
from registry.base.config.settings import GROUP_TITLES, PREFIX

from .output import FAILED, REFUSED, Failure, Refusal
from .verb import SectionOption

ALL_GROUPS = tuple(GROUP_TITLES)
# The section of the options that name files with settings.
_FILES = "Settings"
# Keeps a flag's value apart from an option of the same name.
_KEPT_AS = "setting_"


class SettingOption(SectionOption):
    """A setting as a flag."""

    def __init__(self, setting: Setting, *, rare: bool) -> None:
        # A bare switch means "on"; the other settings take exactly one word.
        bare: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if setting.kind is SWITCH else {}
        super().__init__(
            [setting.flag, _KEPT_AS + setting.name],
            section=GROUP_TITLES[setting.group],
            rare=rare,
            metavar="VALUE",
            help=_brief(setting),
            **bare,
        )
        self._setting = setting

    def word(self, value: str) -> str:
        """Return a value as a word of a shell; of a secret, the variable that may hold it."""
        return f'"${self._setting.variable}"' if self._setting.kind.secret else shlex.quote(value)

    def rare_text(self) -> str:
        """Return everything that there is to know about the setting."""
        setting = self._setting
        words = f"{setting.does}. Allowed: {setting.kind.allowed}. Default: {setting.default}"
        if setting.kind.secret:
            words += f". Other users can see arguments: prefer the environment or {setting.flag}-file"
        return words


def _brief(setting: Setting) -> str:
    """Return the help of a setting on one line or two: up to the first semicolon."""
    does = setting.does.partition(";")[0]
    return does if setting.default == '""' else f"{does} [default: {setting.default}]"


def with_settings(
    *groups: str, also: Collection[str] = (), shown: Collection[str] = (), refused: int = REFUSED
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a verb the settings as its first argument, a :class:`Loaded`.

    The settings of ``groups``, and those named in ``also``, become flags, and the file can be named by
    ``--config``. The help shows the settings ``shown``; ``--help-all`` shows all of them. ``refused`` is the
    exit status if settings are not valid.
    """
    chosen = [setting for setting in table() if setting.group in groups or setting.name in also]
    options = [*_file_options(), *(SettingOption(each, rare=each.name not in shown) for each in chosen)]

    def decorate(run: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(run)
        def with_loaded(config: Path | None, properties: Path | None, **given: Any) -> int:
            words = {each.name: given.pop(_KEPT_AS + each.name) for each in chosen}
            flags = {name: word for name, word in words.items() if word is not None}
            try:
                loaded = load(flags, os.environ, config, properties)
            except SettingsError as error:
                raise (Failure if refused == FAILED else Refusal)("\n".join(error.problems)) from None
            return run(loaded, **given)

        # In this list, click keeps the options of a function that is decorated, the last one first.
        parameters: list[click.Parameter] = with_loaded.__dict__.setdefault("__click_params__", [])
        parameters[:0] = reversed(options)
        return with_loaded

    return decorate


def with_same_settings(command: str) -> str:
    """Return a command line with the settings that the flags of the running verb gave it.

    It works in the same folder and environment. Secrets are not repeated: their variables take their places.
    """
    context = click.get_current_context()
    words = [command]
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if value is None or not isinstance(option, SectionOption):
            continue
        if isinstance(option, SettingOption):
            words += [option.opts[0], option.word(str(value))]
        elif option.section == _FILES:
            words += [option.opts[0], shlex.quote(str(value))]
    return " ".join(words)


def _file_options() -> list[SectionOption]:
    path = click.Path(path_type=Path)
    return [
        SectionOption(
            ["--config"],
            section=_FILES,
            type=path,
            metavar="FILE.toml",
            help=f"File with settings [environment: {CONFIG_VARIABLE}]. "
            f"Every setting has a variable too: {PREFIX}DATA for --data.",
        ),
        SectionOption(
            ["--properties"],
            section=_FILES,
            rare=True,
            type=path,
            metavar="FILE.properties",
            help='Settings of Confluent\'s Schema Registry; "registrar config map" prints their '
            f"counterparts [environment: {PROPERTIES_VARIABLE}].",
        ),
    ]
