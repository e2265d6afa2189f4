"""Requests and answers that are encoded or decoded in one step match their schemas, field by field."""

from __future__ import annotations

import sys
from io import BytesIO
from types import FrameType
from typing import Any

import pytest
from aiokafka.protocol.api import RequestStruct, Response
from hypothesis import given
from hypothesis import strategies as st

from registry.log.kafka.requests import Fetch, Produce, read_fetch, read_produce
from registry.log.kafka.structs import (
    FetchRequestV13,
    FetchResponseV13,
    ProduceRequestV13,
    ProduceResponseV13,
)

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
    """Return an answer about a batch."""
    batch = (0, code, offset, time_ms, 7, errors, message, {})
    return decoded(ProduceResponseV13([(TOPIC, [batch], {})], throttle_ms, {}))


@given(
    offset=longs, epoch=st.integers(-1, 2**31 - 1), wait_ms=st.integers(0, 2**31 - 1),
    bytes_max=st.integers(1, 2**31 - 1), partition=st.integers(0, 2**31 - 1),
)  # fmt: skip
def test_records_are_asked_for_as_the_schema_says(
    offset: int, epoch: int, wait_ms: int, bytes_max: int, partition: int
) -> None:
    fetch = Fetch(
        "topic", TOPIC, offset, epoch=epoch, wait_ms=wait_ms, bytes_max=bytes_max, partition=partition
    )
    request = fetch.build(FetchRequestV13)
    assert request.encode() == RequestStruct.encode(request)


@given(
    records=st.none() | st.binary(max_size=70_000), end=longs, code=st.sampled_from([0, 1, 6]),
    fault=st.sampled_from([0, 70]), aborted=st.sampled_from([None, [], [(7, 9, {})]]),
)  # fmt: skip
def test_records_are_read_as_their_schema_says(
    records: bytes | None, end: int, code: int, fault: int, aborted: list[Any] | None
) -> None:
    partition = (0, code, end, end, 0, aborted, -1, records, {})
    answer = decoded(FetchResponseV13(0, fault, 0, [(TOPIC, [partition], {})], {}))
    assert read_fetch(answer) == ((fault, -1, b"") if fault else (code, end, records or b""))


def test_a_fetch_takes_few_calls() -> None:
    request = Fetch("topic", TOPIC, 7, epoch=0, wait_ms=500, bytes_max=9).build(FetchRequestV13)
    answer = FetchResponseV13(0, 0, 0, [(TOPIC, [PARTITION], {})], {}).encode()
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        request.encode()
        FetchResponseV13.decode(BytesIO(answer))
    finally:
        sys.setprofile(before)
    assert calls <= 6, "field by field it takes 130"


PARTITION = (0, 0, 9, 9, 0, [], -1, b"x" * 70, {})


@pytest.mark.parametrize("partitions", [[], [PARTITION, PARTITION]])
def test_an_answer_about_another_number_of_partitions_is_read_too(partitions: list[Any]) -> None:
    topics = [(TOPIC, partitions, {})]
    assert decoded(FetchResponseV13(0, 0, 0, topics, {})).topics == topics


def test_an_answer_with_tags_is_read_too() -> None:
    answer = FetchResponseV13(0, 0, 0, [(TOPIC, [PARTITION], {})], {})
    tag = b"\1\1\3tag"
    found = decoded(answer, answer.encode()[:-3] + tag + b"\0\0").topics
    assert found == [(TOPIC, [(*PARTITION[:-1], {1: b"tag"})], {})]


def decoded(answer: Response, sent: bytes = b"") -> Any:
    """Return an answer, or what was ``sent`` in its place, as both ways decode it behind a header."""
    sent, kind = sent or answer.encode(), type(answer)
    found, by_fields = (behind_header(sent, decode) for decode in (kind.decode, super(kind, kind).decode))
    assert found == by_fields
    return found


def behind_header(sent: bytes, decode: Any) -> Response:
    data = BytesIO(b"\0" * 5 + sent)
    data.seek(5)
    return decode(data)
