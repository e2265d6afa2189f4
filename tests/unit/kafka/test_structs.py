"""Requests and answers that are encoded or decoded in one step match their schemas, field by field."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from aiokafka.protocol.api import RequestStruct, Response
from hypothesis import given
from hypothesis import strategies as st

from registry.log.kafka.requests import Produce, read_produce
from registry.log.kafka.structs import ProduceRequestV13, ProduceResponseV13

TOPIC = bytes(range(16))
longs = st.integers(-(2**63), 2**63 - 1)


@given(batch=st.binary(max_size=70_000), timeout_ms=st.integers(1, 2**31 - 1))
def test_a_batch_is_sent_as_its_schema_says(batch: bytes, timeout_ms: int) -> None:
    request = Produce("topic", TOPIC, batch, timeout_ms=timeout_ms).build(ProduceRequestV13)
    assert request.encode() == RequestStruct.encode(request)


@given(code=st.integers(-1, 200), offset=longs, time_ms=longs, throttle_ms=st.integers(0, 2**31 - 1))
def test_the_answer_about_a_batch_is_read_as_its_schema_says(
    code: int, offset: int, time_ms: int, throttle_ms: int
) -> None:
    answer = answered(code, offset, time_ms, [], None, throttle_ms)
    assert read_produce(answer) == (code, offset, time_ms, "")


@pytest.mark.parametrize("errors", [[], [(0, "a record", {})]])
@pytest.mark.parametrize("message", [None, "", "why", "a" * 300])
def test_an_answer_that_says_why_is_read_too(errors: list[Any], message: str | None) -> None:
    assert read_produce(answered(87, -1, -1, errors, message, 0)) == (87, -1, -1, message or "")


def answered(
    code: int, offset: int, time_ms: int, errors: list[Any], message: str | None, throttle_ms: int
) -> Any:
    """Return the answer as both ways decode it, after a header of five bytes."""
    batch = (0, code, offset, time_ms, 7, errors, message, {})
    sent = ProduceResponseV13([(TOPIC, [batch], {})], throttle_ms, {}).encode()
    found, by_fields = (behind_header(sent, decode) for decode in DECODERS)
    assert found == by_fields
    return found


DECODERS = (ProduceResponseV13.decode, super(ProduceResponseV13, ProduceResponseV13).decode)


def behind_header(sent: bytes, decode: Any) -> Response:
    data = BytesIO(b"\0" * 5 + sent)
    data.seek(5)
    return decode(data)
