"""Failed deliveries, and when they are tried again."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

FIRST_S = 1.0
# A receiver may ask for a longer pause than any that follows from the number of failures, but not for more.
RETRY_AFTER_MAX_S = 3600.0
_DOUBLINGS_MAX = 20
_REASON_CHARACTERS_MAX = 500


class Undelivered(Exception):
    """Raised if a receiver did not accept a message; the text says why."""

    def __init__(self, reason: str, *, status: int = 0, retry_after_s: float = 0.0) -> None:
        """``status`` is 0 without an answer."""
        # It may hold what the receiver sent.
        super().__init__(reason[:_REASON_CHARACTERS_MAX])
        self.status = status
        self.retry_after_s = retry_after_s


def pause_s(failures: int, most_s: float, chance: float) -> float:
    """Return the pause after so many failures in a row: it doubles each time, up to ``most_s``.

    ``chance``, from 0 to 1, takes away up to half of it, so that webhooks do not all try at the same time.
    """
    longest = min(most_s, FIRST_S * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))
    return longest * (1 - chance / 2)


def retry_after_s(value: str | None, now_s: float) -> float:
    """Return the seconds that a ``Retry-After`` asks for, in either of its forms; 0 if it cannot be read.

    ``now_s``: the wall clock, in seconds since the epoch.
    """
    text = "" if value is None else value.strip()
    if text.isascii() and text.isdigit():
        asked = float(text[:9])
    else:
        try:
            asked = parsedate_to_datetime(text).timestamp() - now_s
        except (ValueError, OverflowError):
            asked = 0.0
    return min(max(0.0, asked), RETRY_AFTER_MAX_S)
