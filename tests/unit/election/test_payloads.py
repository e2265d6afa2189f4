from __future__ import annotations

import pytest

from election.identity import Identity
from election.kafka.assignment import (
    DUPLICATE_URLS,
    Assignment,
    Member,
    decode_assignment,
    decode_member,
    encode_assignment,
    encode_member,
)

SR1 = Identity("http", "sr1", 8081, eligible=True)
OURS = Identity("http", "sr1", 8081, eligible=True, peer="sr1:9000", node="n1")

CONFLUENT_MEMBER = (
    b'{"host":"sr1","port":8081,"master_eligibility":true,"scheme":"http","version":1,"leader":false}'
)
OUR_MEMBER = CONFLUENT_MEMBER[:-1] + b',"registrar_peer":"sr1:9000","registrar_node":"n1"}'
CONFLUENT_ASSIGNMENT = (
    b'{"error":0,"master":"sr-1-3f","master_identity":' + CONFLUENT_MEMBER + b',"version":1}'
)


def test_members_write_confluents_bytes() -> None:
    assert encode_member(SR1, claims=False) == CONFLUENT_MEMBER
    assert encode_member(OURS, claims=False, plain=True) == CONFLUENT_MEMBER
    assert encode_member(OURS, claims=False) == OUR_MEMBER
    assert encode_member(OURS, claims=True) == OUR_MEMBER.replace(b'"leader":false', b'"leader":true')


def test_members_are_read_with_and_without_our_fields() -> None:
    assert decode_member("m", CONFLUENT_MEMBER) == Member("m", SR1, claims=False)
    assert decode_member("m", encode_member(OURS, claims=True)) == Member("m", OURS, claims=True)
    before_sticky = CONFLUENT_MEMBER.replace(b',"leader":false', b"")
    assert decode_member("m", before_sticky) == Member("m", SR1, claims=False)
    assert decode_member("m", CONFLUENT_MEMBER[:-1] + b',"further":{}}') == Member("m", SR1, claims=False)


def test_assignments_are_confluents_bytes() -> None:
    assert encode_assignment(Assignment(0, "sr-1-3f", SR1)) == CONFLUENT_ASSIGNMENT
    assert encode_assignment(Assignment(0, "sr-1-3f", OURS, "no"), plain=True) == CONFLUENT_ASSIGNMENT
    assert encode_assignment(Assignment(0, "", None)) == b'{"error":0,"version":1}'
    ours = (
        b'{"error":1,"master":"m","master_identity":' + OUR_MEMBER + b',"version":1,"registrar_refused":"no"}'
    )
    assert encode_assignment(Assignment(DUPLICATE_URLS, "m", OURS, "no")) == ours


@pytest.mark.parametrize(
    "told", [Assignment(0, "m", OURS), Assignment(1, "m", SR1, "no"), Assignment(0, "", None, "no")]
)
def test_assignments_are_read_as_written(told: Assignment) -> None:
    assert decode_assignment(encode_assignment(told)) == told


@pytest.mark.parametrize("payload", [b"", b"[]", b"null", b"{", b"\xff", b'{"host":"a"}'])
def test_what_is_no_member_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):
        decode_member("m", payload)


@pytest.mark.parametrize("payload", [b"", b"[]", b'{"master_identity":{}}'])
def test_what_is_no_assignment_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):
        decode_assignment(payload)
