"""Media types of requests and answers."""

from __future__ import annotations

import pytest

from registry.api.media_types import check_consumed, negotiate
from registry.domain.errors import RegistryError

V1 = b"application/vnd.schemaregistry.v1+json"
VENDOR = b"application/vnd.schemaregistry+json"
JSON = b"application/json"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (b"*/*", V1),
        (b"application/*", V1),
        (V1, V1),
        (V1.upper(), V1),
        (VENDOR, VENDOR),
        (JSON, JSON),
        (b"application/json;q=0.9, " + VENDOR + b";q=0.5", JSON),
        (JSON + b"," + V1, V1),
        (V1 + b"; q=1, " + VENDOR + b"; q=0.9, application/json; q=0.5", V1),
        (b"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", V1),
        (b"application/json; charset=utf-8", JSON),
        (b"text/html;q=1, application/json;q=0.1", JSON),
        (b"", V1),
        (b" , application/json,", JSON),
    ],
)
def test_the_best_type_is_chosen(accept: bytes, kind: bytes) -> None:
    assert negotiate(accept) == kind


@pytest.mark.parametrize(
    "accept", [b"text/html", b"*/anything", b"*/json", b"application/json;q=0", b"application/xml"]
)
def test_none_that_fits_is_406(accept: bytes) -> None:
    with pytest.raises(RegistryError) as caught:
        negotiate(accept)
    assert caught.value.code == 406


@pytest.mark.parametrize("accept", [b"json", b"application/json;q=high", b"application/json, b"])
def test_what_is_no_list_of_types_is_400(accept: bytes) -> None:
    with pytest.raises(RegistryError) as caught:
        negotiate(accept)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "kind",
    [None, b"", b" ", V1, VENDOR, JSON, b"application/octet-stream", b"Application/JSON; charset=utf-8"],
)
def test_types_that_are_taken(kind: bytes | None) -> None:
    check_consumed(kind)


@pytest.mark.parametrize(
    "kind", [b"text/plain", b"application/x-www-form-urlencoded", b"application/xml", b"json"]
)
def test_other_types_are_415(kind: bytes) -> None:
    with pytest.raises(RegistryError) as caught:
        check_consumed(kind)
    assert caught.value.code == 415
