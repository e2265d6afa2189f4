"""The topic that the settings name, for commands."""

from __future__ import annotations

from registry.log.contract import Log
from registry.settings import Settings


def open_topic(settings: Settings, *, make: bool) -> Log | None:
    """The log in the topic; ``None`` where there is no such topic and none is to be made."""
    raise NotImplementedError
