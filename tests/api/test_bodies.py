"""Request bodies: lenient where Jackson is, refused otherwise."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry.api.bodies import config_patch, mode_request, schema_request
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.model import Metadata, Reference, Rule, RuleSet


def code_of(body: bytes) -> int:
    with pytest.raises(RegistryError) as caught:
        schema_request(body, "s")
    return caught.value.code


def read(**members: Any) -> Any:
    return schema_request(orjson.dumps(members), "s")


@pytest.mark.parametrize("body", [b"", b"  \n", b"null", b"\xef\xbb\xbf"])
def test_no_body_is_422(body: bytes) -> None:
    assert code_of(body) == 422


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"{} x", b"[]", b'"x"', b"1", b'{"schema":}', b'{"schema":"\xff"}', b"NaN",
        b'{"schema":"\\ud800"}',
        b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}", b"{'schema':'x'}", b'{"x":1e999}',
    ],
)  # fmt: skip
def test_broken_json_is_400(body: bytes) -> None:
    assert code_of(body) == 400


def test_everything_absent_has_its_default() -> None:
    found = read()
    assert found == Register("s", "")
    assert read(schema=None, version=None, id=None, references=None, metadata=None) == found


def test_unknown_members_are_ignored_and_the_last_of_equal_ones_counts() -> None:
    assert schema_request(b'{"schema":"a","other":{"x":1},"schema":"b"}', "s").schema == "b"


@pytest.mark.parametrize(("given", "wanted"), [(5, "5"), (True, "true"), (1.5, "1.5"), ("x", "x")])
def test_scalars_become_text(given: Any, wanted: str) -> None:
    assert read(schema=given).schema == wanted


@pytest.mark.parametrize(("given", "wanted"), [("5", 5), (" 7 ", 7), ("", 0), (2.9, 2), (-1, -1)])
def test_scalars_become_numbers(given: Any, wanted: int) -> None:
    assert read(version=given).version == wanted


@pytest.mark.parametrize("given", [True, "x", "1.5", [], {}, 2**31, 10**30, "9" * 5000, 1e300])
def test_what_is_no_number_is_400(given: Any) -> None:
    assert (
        code_of(b'{"version":' + (str(given).encode() if given == 10**30 else orjson.dumps(given)) + b"}")
        == 400
    )


@pytest.mark.parametrize(
    "members",
    [
        {"schema": {}}, {"schema": ["x"]}, {"schemaType": []}, {"references": {}}, {"references": "x"},
        {"references": [1]}, {"metadata": []}, {"metadata": {"properties": {"a": None}}},
        {"metadata": {"tags": {"a": "x"}}}, {"metadata": {"sensitive": {"a": 1}}}, {"ruleSet": "x"},
        {"ruleSet": {"domainRules": [None]}}, {"ruleSet": {"domainRules": [{"disabled": "perhaps"}]}},
        {"ruleSet": {"domainRules": {"name": "x"}}}, {"ruleSet": {"domainRules": [{"params": [1]}]}},
    ],
)  # fmt: skip
def test_wrong_types_are_400(members: dict[str, Any]) -> None:
    assert code_of(orjson.dumps(members)) == 400


@pytest.mark.parametrize(
    "reference",
    [None, {}, {"name": "n", "subject": "s"}, {"name": "n", "version": 1}, {"subject": "s", "version": 1}],
)
def test_an_incomplete_reference_is_42201(reference: Any) -> None:
    assert code_of(orjson.dumps({"references": [reference]})) == 42201


def test_references_metadata_and_rules_are_read() -> None:
    found = read(
        references=[{"name": "n", "subject": "s", "version": "2", "more": 1}],
        metadata={"tags": {"b": ["y", "x"], "a": []}, "properties": {"p": 1}, "sensitive": ["z", "y"]},
        ruleSet={"domainRules": [{"name": "r", "kind": "CONDITION", "tags": ["t"], "onFailure": "NONE"}]},
    )
    assert found.references == [Reference("n", "s", 2)]
    assert found.metadata == Metadata({"a": [], "b": ["x", "y"]}, {"p": "1"}, ["y", "z"])
    rule = Rule(name="r", kind="CONDITION", mode="WRITEREAD", tags=["t"], on_failure="NONE")
    assert found.rule_set == RuleSet(domain_rules=[rule])


def test_a_config_patch_distinguishes_absent_from_null() -> None:
    body = b'{"compatibility":"full","alias":null,"normalize":"true","compatibilityLevel":"NONE","other":1}'
    assert config_patch(body) == {"compatibilityLevel": "full", "alias": None, "normalize": True}
    assert config_patch(b"{}") == {}


def test_a_mode_request_distinguishes_absent_from_null() -> None:
    assert mode_request(b'{"mode":"readonly"}') == (True, "readonly")
    assert mode_request(b'{"mode":null}') == (True, None)
    assert mode_request(b"{}") == (False, None)


def many(count: int) -> list[str]:
    return [f"x{n}" for n in range(count)]


@pytest.mark.parametrize(
    "said",
    [
        {"references": [{"name": name, "subject": "s", "version": 1} for name in many(1001)]},
        {"metadata": {"properties": dict.fromkeys(many(10_001), "v")}},
        {"metadata": {"tags": {name: many(999) for name in many(11)}}},
        {"metadata": {"sensitive": many(10_001)}},
        {"ruleSet": {"domainRules": [{"name": name, "type": "T"} for name in many(4000)]}},
        {"schemaTagsToAdd": [{"schemaEntity": {"entityPath": name}} for name in many(6000)]},
    ],
)
def test_more_than_anybody_writes_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(RegistryError, match=r"has more than 10+ entries") as caught:
        read(**said)
    assert caught.value.code == 422


def test_much_is_taken() -> None:
    references = [{"name": name, "subject": "s", "version": 1} for name in many(1000)]
    found = read(references=references, metadata={"properties": dict.fromkeys(many(9_999), "v")})
    assert len(found.references) == 1000
    with pytest.raises(RegistryError):
        config_patch(orjson.dumps({"defaultMetadata": {"properties": dict.fromkeys(many(10_001), "v")}}))


def test_a_body_of_nothing_but_brackets_is_refused_and_a_long_schema_is_not() -> None:
    filler = b"[" * 900 + b"]" * 900
    assert code_of(b'{"x":[' + b",".join([filler] * 300) + b'],"schema":"x"}') == 422
    brackets = '"' + '[{\\"x\\": 1},' * 30_000 + '"'
    assert read(schema=brackets * 3).schema == brackets * 3


def test_a_text_that_does_not_end_is_read_once() -> None:
    commas = b'{"schema":"' + b"," * 300_000
    assert code_of(commas) == 400, "all of it is one text, and holds no entries"
    assert code_of(b'{"schema":"' + b'\\"' * 2_000_000) == 400
