"""The mode IMPORT, which verbs set temporarily, restored whatever happens."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from registry.cli.client.client import RegistryClient
from registry.cli.client.errors import RegistryError
from registry.cli.exit_status import Failure
from registry.cli.output import note
from registry.cli.promotion.import_journal import ImportJournal, JournalError, open_journal


@contextmanager
def open_journal_or_fail(client: RegistryClient) -> Iterator[ImportJournal]:
    """Open the journal of imports into a registry; its errors end the verb with a message."""
    try:
        with open_journal(os.environ, client.url) as journal:
            yield journal
    except JournalError as error:
        raise Failure(str(error)) from None


def restore_modes(client: RegistryClient, journal: ImportJournal) -> None:
    """Restore the former modes and report them."""
    with report_open_modes(client, journal):
        for subject, mode in journal.restore(client).items():
            note(f"mode of {subject}: {mode or 'none of its own'}, as before")


@contextmanager
def report_open_modes(client: RegistryClient, journal: ImportJournal) -> Iterator[None]:
    """If restoring modes fails, print the commands that do it."""
    try:
        yield
    except (RegistryError, KeyboardInterrupt):
        note("these may still be in mode IMPORT: run the command again, or these commands:")
        for subject, mode in journal.former_modes.items():
            does = f"set {mode}" if mode else "delete"
            note(f"  registrar mode {does} {shlex.quote(subject)} --url {client.url}")
        raise


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Treat SIGTERM, by which pipelines cancel their jobs, like Ctrl-C."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
