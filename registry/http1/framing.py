"""Where a request's body ends (RFC 9112, section 6), as far as the parser leaves it open.

The parser (llhttp) refuses two lengths, a length together with a coding, codings whose last one is not
``chunked``, and all odd spellings of either.
"""

from __future__ import annotations

from collections.abc import Iterable

from registry.domain.errors import BAD_REQUEST, ErrorKind, RegistryError

BROKEN = "HTTP 400 Bad Request: the request is no valid HTTP"
CODING_UNKNOWN = ErrorKind(501, "HTTP 501 Not Implemented: the only transfer coding served is chunked")


def coding_fault(codings: Iterable[bytes], version: str) -> RegistryError | None:
    """Return why a body with these ``Transfer-Encoding`` headers is refused, or ``None``."""
    names = [each.strip().lower() for each in b",".join(codings).split(b",")]
    names = [each for each in names if each]
    if version != "1.1" or names[-1:] != [b"chunked"] or names.count(b"chunked") > 1:
        return BAD_REQUEST(BROKEN)
    return CODING_UNKNOWN() if len(names) > 1 else None
