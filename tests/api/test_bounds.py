"""The number of entries that a large body may have."""

from __future__ import annotations

import pytest

from registry.api.json_input import BODY_ENTRIES_MAX, check_large
from registry.domain.errors import RegistryError

MANY = b"," * (BODY_ENTRIES_MAX + 1)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"0," * (BODY_ENTRIES_MAX - 1) + b"0]",
        b'["' + MANY + b'"]',
        b'["\\"' + MANY + b'"]',
        b'["\\\\\\"' + MANY + b'"]',
        b'["' + b'\\"' * 5 * BODY_ENTRIES_MAX + MANY + b'"]',
        b'{"' + b"," * 9 + b'":"' + MANY + b'"}',
    ],
)
def test_what_stands_in_texts_is_no_entry(body: bytes) -> None:
    check_large(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"0," * BODY_ENTRIES_MAX + b"0]",
        b"[" * (BODY_ENTRIES_MAX + 1),
        b'["\\\\",' + b'"",' * BODY_ENTRIES_MAX + b'""]',
        b'"' * 5 * BODY_ENTRIES_MAX + MANY,
    ],
)
def test_too_many_entries_are_refused(body: bytes) -> None:
    with pytest.raises(RegistryError) as refused:
        check_large(body)

    assert refused.value.code == 422
