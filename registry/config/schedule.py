"""Schedules: due after a number of records, after a time, or after whichever comes first."""

from __future__ import annotations

import re
from typing import NamedTuple

from .setting_types import Kind, quoted

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_COUNT = re.compile(r"([0-9]{1,15})([smhd]?)")


class Schedule(NamedTuple):
    """Records and seconds since the last time; 0 for one that does not count."""

    records: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Parse ``"100000"`` records, ``"6h"``, ``"100000,6h"``, or ``""`` for never.

        Raises :class:`ValueError` for anything else, for a unit given twice, and for zero.
        """
        records = seconds = 0
        for word in filter(None, (each.strip() for each in text.split(","))):
            match = _COUNT.fullmatch(word)
            count = int(match[1]) if match else 0
            if match is None or not count or (seconds if match[2] else records):
                raise ValueError(text)
            if match[2]:
                seconds = count * _SECONDS[match[2]]
            else:
                records = count
        return cls(records, seconds)


def _read(value: object) -> str:
    text = str(value) if type(value) is int else value
    if not isinstance(text, str):
        raise ValueError(value)  # noqa: TRY004 - one error for every value that is not allowed
    Schedule.parse(text)
    return text.strip()


SCHEDULE = Kind(
    _read,
    'a number of records, a time such as 90s, 30m, 6h or 1d, or both as in "100000,6h", or empty',
    quoted,
)
