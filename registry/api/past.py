"""Reads of a subject as it was: ``atOffset`` and ``atTime``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

from registry.domain.errors import BAD_REQUEST, HISTORY_OFF, PAST_LOST, UNAVAILABLE, UNPROCESSABLE
from registry.domain.history.entries import packed_owner
from registry.domain.history.moment import CONTEXTS, OWNERS_MAX, Moment, OwnersView, Unloaded
from registry.domain.model import EVERYWHERE, TOP, Subject
from registry.domain.rows.view import View

from .backend import Backend
from .parameters import word

AT_OFFSET = word("atOffset", "Return the state after the record at this offset", None)
AT_TIME = word("atTime", "Return the state at this time: ms since the epoch, or ISO 8601", None)
PAST = (AT_OFFSET, AT_TIME)
# On every answer from rows of the past: the offset of the moment's last record, -1 before the first.
AT_OFFSET_HEADER = b"x-registry-at-offset"
PAST_ERRORS = (BAD_REQUEST, PAST_LOST, HISTORY_OFF, UNAVAILABLE)

# Of all rows that one request asks for.
BYTES_MAX = 64 << 20
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
# A plus sign that was not escaped arrives as a blank.
_UNESCAPED_ZONE = re.compile(r" (?=\d\d:?\d\d$)", re.ASCII)


def moment_of(args: Mapping[str, Any]) -> Moment | None:
    """Return the moment that a request names; ``None``: the present. Raises 400 and 422."""
    at_offset, at_time = args.get(AT_OFFSET.name), args.get(AT_TIME.name)
    if at_offset is not None and at_time is not None:
        raise UNPROCESSABLE("Give atOffset or atTime, not both")
    if at_offset is not None:
        if not _DIGITS.fullmatch(at_offset):
            raise BAD_REQUEST("atOffset is not an offset")
        return Moment(offset=int(at_offset))
    return None if at_time is None else Moment(time_ms=time_ms(AT_TIME.name, at_time))


def time_ms(name: str, text: str) -> int:
    """Return the time that the parameter ``name`` gives, in ms since the epoch. Raises 400."""
    if _DIGITS.fullmatch(text):
        return int(text)
    try:
        found = datetime.fromisoformat(_UNESCAPED_ZONE.sub("+", text))
        if found.tzinfo is None:
            found = found.replace(tzinfo=UTC)
        return int(found.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BAD_REQUEST(
            f"{name} is neither ms since the epoch nor a time such as 2026-01-31T12:00:00Z"
        ) from None


class PastRows:
    """The rows of one moment, of those owners that a request has asked for so far."""

    def __init__(self, backend: Backend, moment: Moment, path: Mapping[str, str], asker: str = "") -> None:
        """``asker``: who sends the request; each has its turns."""
        self._backend = backend
        self._asker = asker
        self._moment = moment
        # True if the same request always gets the same answer.
        self.lasting = moment.offset is not None
        self._subject = Subject.parse(path["subject"]) if "subject" in path else TOP
        self._rows: dict[bytes, Sequence[tuple[bytes, bytes]]] = {}
        self._bytes = 0
        # The rows include the log up to this offset, exclusively; ``None``: none were reported.
        self.applied: int | None = None

    def now(self) -> AbstractContextManager[View]:
        """Return the rows of the present."""
        return self._backend.view()

    @contextmanager
    def view(self) -> Iterator[View]:
        """Return the rows; what is lacking raises :class:`Unloaded`."""
        yield OwnersView(self._rows)

    async def load(self, lacking: Unloaded | None = None) -> None:
        """Ask for the rows that are lacking, or for those that every request needs. Raises 410 and others."""
        subject = self._subject
        if lacking is None:
            scopes = (subject, Subject(subject.context, ""), TOP, EVERYWHERE)
            owners = list(dict.fromkeys(map(packed_owner, scopes)))
        else:
            owners = [lacking.owner]
        await self._ask(owners)
        if owners == [CONTEXTS]:
            # A name without a context is looked up in each.
            name = packed_owner(subject).partition(b"\0")[2]
            contexts = [key[1:] for key, _ in self._rows[CONTEXTS]]
            await self._ask([context + name for context in contexts if context + name not in self._rows])

    async def _ask(self, owners: list[bytes]) -> None:
        if len(self._rows) + len(owners) > OWNERS_MAX:
            raise UNPROCESSABLE(
                "The request involves too many subjects or contexts to answer as of a past moment"
            )
        if not owners:
            return
        found = await self._backend.past(self._moment, owners, self._asker)
        self._bytes += sum(len(key) + len(value) for rows in found.rows.values() for key, value in rows)
        if self._bytes > BYTES_MAX:
            raise UNPROCESSABLE("The requested state is too large for one response")
        self._rows.update(found.rows)
        self.applied = found.applied
        if found.applied:
            # All further rows are of the same moment, whatever is written meanwhile.
            self._moment = Moment(found.applied - 1)
