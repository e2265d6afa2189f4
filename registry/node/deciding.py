"""From a batch of commands to the records and outcomes that it would have; nothing is appended here."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from registry.domain.commands import Command, Refused, refused
from registry.domain.decide import Decision, decide
from registry.domain.errors import SCHEMA_TOO_LARGE, ErrorKind, RegistryError
from registry.domain.fold import apply
from registry.domain.ids import Ids
from registry.domain.parsing import Parser
from registry.domain.records import Entry, Record
from registry.domain.rows import View
from registry.domain.scope import Defaults
from registry.domain.views import OverlayView

BATCH_BYTES_MAX = 16 << 20
_UNEXPECTED = ErrorKind(500, "Internal Server Error")
_TOO_MUCH = ErrorKind(503, "Too many large writes at once")
_log = logging.getLogger(__name__)


class Planned(NamedTuple):
    """What a command will have done; ``start`` to ``stop`` are its records among those of the batch."""

    reply: bytes
    start: int
    stop: int

    @property
    def writes(self) -> bool:
        """Whether it has records of its own."""
        return self.start < self.stop


Plan = Planned | Refused


class Batch(NamedTuple):
    """What a batch of commands comes to."""

    entries: list[Entry]
    plans: list[Plan]

    def cuts(self) -> list[int]:
        """Where in ``entries`` another command's begin."""
        return [each.start for each in self.plans if isinstance(each, Planned) and each.writes and each.start]


class Decider:
    """Decides commands one after another, each over the rows and the records of those before it."""

    def __init__(self, defaults: Defaults, id_batch: int) -> None:
        self.ids = Ids(id_batch)
        self._defaults = defaults
        self._parser = Parser()

    def decide(
        self, view: View, commands: Iterable[Command], *, base: int, now: int, bytes_max: int
    ) -> Batch:
        """``base``: an offset that no row of ``view`` reaches. ``bytes_max``: of a record's key and value."""
        batch = Batch([], [])
        size = 0
        overlay = OverlayView(view)
        for command in commands:
            if size > BATCH_BYTES_MAX:
                batch.plans.append(refused(_TOO_MUCH()))
                continue
            ids = self.ids.saved()
            try:
                decision = self._one(overlay, command, bytes_max)
            except RegistryError as error:
                self.ids.restore(ids)
                batch.plans.append(refused(error))
                continue
            start = len(batch.entries)
            for entry in decision.entries:
                record = Record(base + len(batch.entries), now, entry.key, entry.value)
                overlay.commit(apply(overlay, record))
                batch.entries.append(entry)
                size += len(entry.key) + len(entry.value or b"")
            batch.plans.append(Planned(decision.reply, start, len(batch.entries)))
        return batch

    def _one(self, view: OverlayView, command: Command, bytes_max: int) -> Decision:
        try:
            decision = decide(view, command, self.ids, self._defaults, self._parser)
        except RegistryError:
            raise
        except Exception:
            # One command's fault must not take the others of its batch along.
            _log.exception("unexpected error while deciding %s", type(command).__name__)
            raise _UNEXPECTED() from None
        for entry in decision.entries:
            if len(entry.key) + len(entry.value or b"") > bytes_max:
                raise SCHEMA_TOO_LARGE()
        return decision
