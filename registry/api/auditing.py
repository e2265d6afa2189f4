"""Audit entries of requests: writes, and refusals of those who may not do what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import Scope

from registry.audit.entry import RequestEntry
from registry.domain.principal import ANONYMOUS

# Keys in the request's state.
WRITES = "writes"  # true for a write, unless it was answered from rows and nothing was to be done
ERROR_CODE = "error_code"

# Takes an entry and returns at once.
Audit = Callable[[RequestEntry], None]
# Not admitted, not permitted, too many: recorded for reads as well.
_REFUSALS = frozenset({401, 403, 429})


def entry(scope: Scope, state: Mapping[str, Any], status: int, address: str) -> RequestEntry | None:
    """Return the entry of a request; ``None`` if it is not recorded.

    ``status``: of the answer; 0 if the client disconnected before there was one.
    """
    if not (state.get(WRITES) or status in _REFUSALS):
        return None
    admission = state.get("admission")
    principal = ANONYMOUS if admission is None else admission.principal
    return RequestEntry(
        # Without a route the path is the client's own text, which the entry cuts.
        operation=f"{scope['method']} {state.get('route') or scope['path']}",
        request_id=state["request_id"],
        principal=principal.name,
        address=address,
        subject=scope.get("path_params", {}).get("subject", ""),
        status=status,
        error_code=state.get(ERROR_CODE, 0),
        offset=state.get("offset"),
    )
