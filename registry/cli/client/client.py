"""A client of a registry's HTTP API: Registrar's, and others that speak Confluent's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import httpx
import msgspec
import orjson

from .addresses import Address
from .resources import ErrorAnswer, NotARegistry, RegistryError, subject_path
from .transport import NOTHING, Answer, Request, TlsFiles, Transport, advice, not_a_registry

AT_OFFSET: Final = "atOffset"
AT_TIME: Final = "atTime"
# On every answer about the past: the offset of the last record that it includes.
_PROOF: Final = "x-registry-at-offset"


class AnsweredWithPresent(RegistryError):
    """An answer about the present to a question about the past."""


def asks_for_past(params: Mapping[str, Any]) -> bool:
    """Return true if a request names a moment."""
    return any(params.get(each) is not None for each in (AT_OFFSET, AT_TIME))


def check_past(answer: Answer) -> None:
    """Raise :class:`AnsweredWithPresent` for an answer that does not say which moment it shows.

    Each answer is checked, because behind one address there can be servers of several versions.
    """
    answered = answer.is_success or answer.status == httpx.codes.NOT_FOUND
    if answered and _PROOF not in answer.headers:
        raise AnsweredWithPresent(
            f"{answer.address.url} does not support reads of the past and answered with the current state: "
            "leave out --at-offset and --at-time, or update the registry"
        )


def listed_versions(
    registry: RegistryClient, subject: str, *, deleted: bool, **moment: Any
) -> dict[int, bool]:
    """Return the numbers of a subject's versions, each with true if it is soft-deleted.

    ``moment`` holds the parameters of a read of the past.

    Raises :class:`.resources.ErrorAnswer` with status 404 if there is none.
    """
    path = f"{subject_path(subject)}/versions"
    if not deleted:
        return dict.fromkeys(registry.pages(path, int, **moment), False)
    everything = list(registry.pages(path, int, deleted=True, **moment))
    try:
        active = set(registry.pages(path, int, **moment))
    except ErrorAnswer as error:
        if error.status != 404 or error.is_unknown_resource:
            raise
        active = set()
    return {number: number not in active for number in everything}


_PAGE = 1000


class RegistryClient:
    """Sends requests to one registry, for a ``with`` block.

    Paths are quoted already. Parameters that are ``None`` or false are not sent. ``kind``: the type of the
    answer, or of the items of a list, as in :mod:`.resources`; the answer is returned as it is. Every request
    raises :class:`.resources.RegistryError`; a read of the past also if the answer is about the present.
    """

    def __init__(self, addresses: Sequence[Address], tls: TlsFiles, timeout_s: float) -> None:
        self._transport = Transport(addresses, tls, timeout_s)
        # What the newest page of a list says besides its items; empty: nothing.
        self.warning = ""
        # The longest wait for an answer.
        self.timeout_s = timeout_s

    @property
    def url(self) -> str:
        """The address that is asked first, without credentials."""
        return self._transport.address.url

    def get(self, path: str, kind: Any = Any, /, **params: Any) -> Any:
        """Return the JSON of a resource."""
        return _json(path, self._get(path, params, past=asks_for_past(params)), kind)

    def get_with_tag(self, path: str, /, **params: Any) -> tuple[Any, str]:
        """Return the JSON of a resource and its ETag: ``None`` and ``NOTHING`` if it does not exist.

        The ETag is empty if the registry has none.
        """
        answer = self._transport.send(Request("GET", path, params))
        try:
            return _json(path, answer), answer.headers.get("etag", "")
        except ErrorAnswer as error:
            if error.status != httpx.codes.NOT_FOUND or error.is_unknown_resource:
                raise
        return None, NOTHING

    def post(self, path: str, body: Any, kind: Any = Any, /, *, if_match: str = "", **params: Any) -> Any:
        """Send JSON to a resource that looks something up or registers it; return the JSON of the answer.

        ``if_match``: as for :meth:`put`.
        """
        return _json(path, self._transport.send(Request("POST", path, params, body, "", if_match)), kind)

    def put(self, path: str, body: Any, kind: Any = Any, /, *, if_match: str = "", **params: Any) -> Any:
        """Replace a resource; return the JSON of the answer.

        ``if_match``: the ETag that it must have, or ``NOTHING``; empty: any or none.
        """
        return _json(path, self._transport.send(Request("PUT", path, params, body, "", if_match)), kind)

    def delete(self, path: str, *, if_match: str = "", **params: Any) -> Any:
        """Delete a resource; return the JSON of the answer. ``if_match``: as for :meth:`put`."""
        return _json(path, self._transport.send(Request("DELETE", path, params, None, "", if_match)))

    def attempt(self, request: Request) -> Answer:
        """Send a request once, to the first address; return whatever was answered, errors too."""
        return self._transport.send_once(request)

    def pages(self, path: str, kind: Any = Any, /, **params: Any) -> Iterator[Any]:
        """Yield the items of a list, page by page.

        Registrar links its pages; with other registries items are counted until there are no more, because
        one may give fewer than are asked for. One that ignores pages gives everything at once.
        """
        target, query = path, {**params, "limit": _PAGE, "offset": 0}
        begin: Any = None
        past = asks_for_past(params)
        while target:
            page, target = self._page(path, target, query, kind, past=past)
            if not page or page[0] == begin:  # the offset was ignored
                return
            begin = page[0] if begin is None else begin
            if target:
                query = {}
            elif query:
                target = path
                query["offset"] += len(page)
            yield from page
            del page  # it can be large: hold no two of them

    def _get(self, target: str, params: dict[str, Any], *, past: bool) -> Answer:
        answer = self._transport.send(Request("GET", target, params))
        if past:
            check_past(answer)
        return answer

    def _page(
        self, path: str, target: str, query: dict[str, Any], kind: Any, *, past: bool
    ) -> tuple[list[Any], str]:
        """Return a page and the target that it links as the next one, empty if none."""
        answer = self._get(target, query, past=past)
        self.warning = answer.warning
        page: list[Any] = _json(path, answer, list[kind])
        return page, answer.next_page

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


def _json(path: str, answer: Answer, kind: Any = Any) -> Any:
    """Return the JSON of an answer, ``None`` if it is empty; raise the error that it reports."""
    if answer.is_success and not answer.content and kind is Any:
        return None
    try:
        # Lone surrogates are refused: they can be neither printed nor written to files.
        found = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        found = None
    if answer.is_success and found is not None:
        try:
            msgspec.convert(found, kind)
        except msgspec.ValidationError as error:
            raise NotARegistry(not_a_registry(path, answer, str(error))) from None
        return found
    if isinstance(found, dict) and "message" in found:
        given = found.get("error_code", found.get("code"))
        code = given if isinstance(given, int) else answer.status
        raise ErrorAnswer(answer.status, code, str(found["message"]), advice(path, answer, code))
    bare = answer.status in (404, 405) and not answer.content  # an unknown path of Apicurio's
    if bare or answer.status in (401, 403, 429) or answer.status >= 500:
        raise ErrorAnswer(answer.status, answer.status, "", advice(path, answer, answer.status))
    raise NotARegistry(not_a_registry(path, answer))
