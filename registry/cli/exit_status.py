"""The exit statuses of every verb, and errors that end one with a message."""

from __future__ import annotations

import click

# Done, and the answer is good.
OK = 0
# Done, and the answer is a bad verdict: refused, different, incompatible, not found, unhealthy.
REFUSED = 1
# Nothing can be said: wrong usage, unusable input, unreachable server.
FAILED = 2
# Nothing was refused, but a dry run found steps to take; only where --exit-code asks for it.
DRIFT = 3
# Ended by Ctrl-C, and by a reader of the output that went away, as shells report the signals.
INTERRUPTED = 130
BROKEN_PIPE = 141


class EndedVerb(click.ClickException):
    """An error that ends a verb with a message; ``code``: the registry's code, if it answered with one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Refusal(EndedVerb):
    """A bad verdict; the text says what was refused and what to do."""

    exit_code = REFUSED


class Failure(EndedVerb):
    """An error that leaves no verdict; the text says what happened, to what, and what to do."""

    exit_code = FAILED
