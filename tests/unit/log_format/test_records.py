"""Keys and values of the log, byte for byte."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.jackson import dumps
from registry.domain.log_format.records import (
    AssociationKey,
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    ModeKey,
    NoopKey,
    SchemaKey,
    UnreadableKey,
    canonical_key,
    decode_key,
)
from registry.domain.log_format.values import BadValue
from registry.domain.model import TOP, Metadata, Reference, Rule, RuleSet, Subject, guid_text

S = Subject.parse("s")
IN_CONTEXT = Subject.parse(":.ctx:s")
ASSOCIATION = AssociationKey(Subject.parse(":.ns:n-value"), "n", "ns", "topic", "value")

KEYS = [
    (SchemaKey(S, 1), b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'),
    (SchemaKey(IN_CONTEXT, 2), b'{"keytype":"SCHEMA","subject":":.ctx:s","version":2,"magic":1}'),
    (SchemaKey(TOP, 1), b'{"keytype":"SCHEMA","version":1,"magic":1}'),
    (ConfigKey(S), b'{"keytype":"CONFIG","subject":"s","magic":0}'),
    (ConfigKey(TOP), b'{"keytype":"CONFIG","magic":0}'),
    (ConfigKey(Subject(".ctx", "")), b'{"keytype":"CONFIG","subject":":.ctx:","magic":0}'),
    (ModeKey(S), b'{"keytype":"MODE","subject":"s","magic":0}'),
    (ModeKey(TOP), b'{"keytype":"MODE","magic":0}'),
    (DeleteSubjectKey(S), b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'),
    (ClearSubjectKey(S), b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}'),
    (ClearSubjectKey(TOP), b'{"keytype":"CLEAR_SUBJECT","magic":0}'),
    (ContextKey(".ctx"), b'{"keytype":"CONTEXT","tenant":"default","context":".ctx","magic":0}'),
    (
        ASSOCIATION,
        b'{"keytype":"ASSOC","tenant":"default","resourceName":"n","resourceNamespace":"ns",'
        b'"resourceType":"topic","associationType":"value","subject":":.ns:n-value","magic":0}',
    ),
    (NoopKey(None, None), b'{"keytype":"NOOP","magic":0}'),
    (NoopKey("barrier", None), b'{"keytype":"NOOP","magic":0,"registrar":"barrier"}'),
    (NoopKey("snapshot", None), b'{"keytype":"NOOP","magic":0,"registrar":"snapshot"}'),
    (NoopKey("ids", ".c"), b'{"keytype":"NOOP","magic":0,"registrar":"ids","context":".c"}'),
    (NoopKey("webhook", None, "h"), b'{"keytype":"NOOP","magic":0,"registrar":"webhook","name":"h"}'),
    (
        NoopKey("webhook-position", None, "h"),
        b'{"keytype":"NOOP","magic":0,"registrar":"webhook-position","name":"h"}',
    ),
]


@pytest.mark.parametrize(("key", "raw"), KEYS)
def test_keys_are_written_as_confluent_writes_them_and_read_back(key: records.Key, raw: bytes) -> None:
    assert canonical_key(key) == raw
    assert decode_key(raw) == key


def test_our_own_keys_have_names() -> None:
    assert records.NOOP_KEY == canonical_key(NoopKey(None, None))
    assert records.BARRIER_KEY == canonical_key(NoopKey(records.BARRIER, None))
    assert records.SNAPSHOT_KEY == canonical_key(NoopKey(records.SNAPSHOT, None))
    assert records.reservation_key(".") == b'{"keytype":"NOOP","magic":0,"registrar":"ids","context":"."}'


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"magic":1,"version":1,"subject":"s","keytype":"SCHEMA"}', SchemaKey(S, 1)),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":0}', SchemaKey(S, 1)),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', SchemaKey(S, 1)),
        (b' {"keytype":"SCHEMA","subject":"s","version":1,"magic":1,"seq":3,"node":1}\n', SchemaKey(S, 1)),
        (b'{"keytype":"SCHEMA","subject":":.:s","version":1,"magic":1}', SchemaKey(S, 1)),
        (b'{"keytype":"SCHEMA","subject":null,"version":1,"magic":1}', SchemaKey(TOP, 1)),
        (b'{"keytype":"CONFIG","subject":"","magic":0}', ConfigKey(TOP)),
        (b'{"keytype":"CONFIG","subject":":.:","magic":0}', ConfigKey(TOP)),
        (b'{"keytype":"MODE","subject":":.ctx","magic":0}', ModeKey(Subject(".ctx", ""))),
        (b'{"keytype":"MODE","subject":":ctx:s","magic":0}', ModeKey(Subject(".", ":ctx:s"))),
        (b'{"keytype":"MODE","subject":":.a:b:c","magic":0}', ModeKey(Subject(".a", "b:c"))),
        (b'{"keytype":"CONTEXT","context":".c","magic":0}', ContextKey(".c")),
        (b'{"keytype":"NOOP","magic":0,"registrar":"later","more":[]}', NoopKey("later", None)),
    ],
)
def test_keys_of_other_writers_mean_the_same(raw: bytes, key: records.Key) -> None:
    assert decode_key(raw) == key


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"7",
        b'"SCHEMA"',
        b"{}",
        b"{" * 50_000,
        b"[" * 50_000,
        b'{"keytype":null}',
        b'{"keytype":["SCHEMA"]}',
        b'{"keytype":"schema","subject":"s","version":1,"magic":1}',
        b'{"keytype":"DEK","magic":0}',
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":2}',
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":"1"}',
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":true}',
        b'{"keytype":"CONFIG","subject":"s","magic":1}',
        b'{"keytype":"SCHEMA","subject":"s","magic":1}',
        b'{"keytype":"SCHEMA","subject":"s","version":0,"magic":1}',
        b'{"keytype":"SCHEMA","subject":"s","version":2147483648,"magic":1}',
        b'{"keytype":"SCHEMA","subject":"s","version":%s,"magic":1}' % (b"9" * 400),
        b'{"keytype":"SCHEMA","subject":"s","version":1.0,"magic":1}',
        b'{"keytype":"SCHEMA","subject":7,"version":1,"magic":1}',
        b'{"keytype":"SCHEMA","subject":"\\ud800","version":1,"magic":1}',
        b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}x',
        b'{"keytype":"CONTEXT","tenant":"other","context":".c","magic":0}',
        b'{"keytype":"CONTEXT","tenant":"default","magic":0}',
        b'{"keytype":"CONTEXT","tenant":"default","context":"c","magic":0}',
        b'{"keytype":"NOOP","magic":0,"registrar":"ids"}',
        b'{"keytype":"NOOP","magic":0,"registrar":1}',
        b'{"keytype":"NOOP","magic":0,"registrar":"webhook"}',
        b'{"keytype":"NOOP","magic":0,"registrar":"webhook-position","name":7}',
        b'{"keytype":"ASSOC","tenant":"default","resourceName":{},"subject":"s","magic":0}',
    ],
)
def test_what_is_no_key_is_unreadable(raw: bytes | None) -> None:
    with pytest.raises(UnreadableKey) as caught:
        decode_key(raw)
    assert caught.value.reason


@given(st.text(), st.text(alphabet=":.ab"))
def test_a_subject_survives_its_key(text: str, odd: str) -> None:
    for subject in (Subject.parse(text), Subject.parse(odd), Subject(".", odd), Subject(".c", odd)):
        key = SchemaKey(subject, 1)
        assert decode_key(canonical_key(key)) == key


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (
            values.schema_value(Subject.parse("t-value"), 1, 7, '"string"'),
            b'{"subject":"t-value","version":1,"id":7,"schemaType":"AVRO","schema":"\\"string\\"","deleted":false}',
        ),
        (
            values.schema_value(
                Subject.parse("p"),
                2,
                9,
                "syntax = ...",
                schema_type="PROTOBUF",
                references=[Reference("a.proto", "a", 1)],
            ),
            b'{"subject":"p","version":2,"id":9,"schemaType":"PROTOBUF",'
            b'"references":[{"name":"a.proto","subject":"a","version":1}],'
            b'"schema":"syntax = ...","deleted":false}',
        ),
        (
            values.schema_value(
                IN_CONTEXT,
                1,
                0,
                "{}",
                metadata=Metadata(),
                rule_set=RuleSet(domain_rules=[Rule(name="r", kind="CONDITION", mode="WRITE")]),
                deleted=True,
                md5=bytes(16),
            ),
            b'{"subject":":.ctx:s","version":1,"id":0,"md5":"AAAAAAAAAAAAAAAAAAAAAA==","schemaType":"AVRO",'
            b'"metadata":{},"ruleSet":{"domainRules":[{"name":"r","kind":"CONDITION","mode":"WRITE",'
            b'"disabled":false}]},"schema":"{}","deleted":true}',
        ),
        (subject_values.config_value(TOP, {"compatibilityLevel": "FULL"}), b'{"compatibilityLevel":"FULL"}'),
        (
            subject_values.config_value(
                S, {"compatibilityLevel": "FULL", "normalize": False, "alias": "", "x": 1}
            ),
            b'{"subject":"s","normalize":false,"compatibilityLevel":"FULL"}',
        ),
        (
            subject_values.config_value(
                S, {"overrideMetadata": Metadata(properties={"a": "b"}), "alias": "t"}
            ),
            b'{"subject":"s","alias":"t","overrideMetadata":{"properties":{"a":"b"}}}',
        ),
        (subject_values.mode_value(S, "IMPORT"), b'{"subject":"s","mode":"IMPORT"}'),
        (subject_values.mode_value(TOP, "READONLY"), b'{"mode":"READONLY"}'),
        (values.delete_subject_value(S, 3), b'{"subject":"s","version":3}'),
        (values.clear_subject_value(S), b'{"subject":"s"}'),
        (values.clear_subject_value(TOP), b"{}"),
        (values.context_value(".ctx"), b'{"tenant":"default","context":".ctx"}'),
        (values.reservation_value(40), b'{"upto":40}'),
    ],
)
def test_values_are_written_as_confluent_writes_them(value: bytes, raw: bytes) -> None:
    assert value == raw


def test_text_is_escaped_as_jackson_escapes_it() -> None:
    assert dumps('\x00\x1f\x7f\b\f\n\r\t"\\/é€') == '"\\u0000\\u001F\x7f\\b\\f\\n\\r\\t\\"\\\\/é€"'.encode()
    assert dumps("\\u001f") == b'"\\\\u001f"'
    assert dumps("\\\x1f") == b'"\\\\\\u001F"'
    assert dumps("a\U0001f600é") == '"a\\uD83D\\uDE00é"'.encode()
    assert decode_key(canonical_key(ModeKey(Subject(".", "\U0001f600\x1b")))).subject.name == "\U0001f600\x1b"


def test_a_schema_value_is_read_with_what_is_missing_filled_in() -> None:
    content = values.read_schema(b'{"subject":"t-value","version":1,"id":7,"schema":"\\"string\\""}')
    assert guid_text(content.md5) == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"
    assert content[2:] == (False, "AVRO", [], None, None, '"string"', False)


def test_nulls_and_unknown_members_of_a_schema_value_say_nothing() -> None:
    plain = values.read_schema(b'{"id":7,"schema":"{}"}')
    odd = (
        b'{"id":7,"schema":"{}","schemaType":null,"references":null,"metadata":null,"ruleSet":null,'
        b'"md5":null,"deleted":null,"offset":"x","ts":[],"subject":3,"version":{},"new":[[{}]]}'
    )
    assert values.read_schema(odd) == plain


def test_an_md5_that_is_there_counts() -> None:
    raw = values.schema_value(S, 1, 1, '"string"', md5=b"0123456789abcdef")
    assert values.read_schema(raw).md5 == b"0123456789abcdef"
    assert values.read_schema(raw).md5_stored


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"x",
        b"null",
        b"[]",
        b"\xff",
        b"[" * 50_000,
        b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b',"id":1,"schema":"{}"}',
        b'{"id":1}',
        b'{"id":1,"schema":null}',
        b'{"id":1,"schema":{}}',
        b'{"id":1,"schema":"\\udc00"}',
        b'{"schema":"{}"}',
        b'{"id":null,"schema":"{}"}',
        b'{"id":"1","schema":"{}"}',
        b'{"id":-1,"schema":"{}"}',
        b'{"id":2147483648,"schema":"{}"}',
        b'{"id":true,"schema":"{}"}',
        b'{"id":1,"schema":"{}","deleted":"true"}',
        b'{"id":1,"schema":"{}","schemaType":1}',
        b'{"id":1,"schema":"{}","references":{}}',
        b'{"id":1,"schema":"{}","references":[{"name":"n","subject":"s"}]}',
        b'{"id":1,"schema":"{}","references":[{"name":null,"subject":"s","version":1}]}',
        b'{"id":1,"schema":"{}","references":[{"name":"n","subject":"s","version":99999999999}]}',
        b'{"id":1,"schema":"{}","metadata":[]}',
        b'{"id":1,"schema":"{}","metadata":{"properties":{"a":1}}}',
        b'{"id":1,"schema":"{}","ruleSet":{"domainRules":[null]}}',
        b'{"id":1,"schema":"{}","md5":"AAAA"}',
        b'{"id":1,"schema":"{}","md5":"\xc3\xa9"}',
        b'{"id":1,"schema":"{}","md5":7}',
    ],
)
def test_a_bad_schema_value_is_named_so(raw: bytes) -> None:
    with pytest.raises(BadValue) as caught:
        values.read_schema(raw)
    assert caught.value.reason


@pytest.mark.parametrize(
    "raw",
    [
        b'{"compatibilityLevel":"full"}',
        b'{"compatibilityPolicy":"LAX"}',
        b'{"normalize":1}',
        b'{"alias":[]}',
        b'{"defaultMetadata":{"tags":3}}',
        b'{"overrideRuleSet":[]}',
        b"3",
    ],
)
def test_a_bad_config_value_is_named_so(raw: bytes) -> None:
    with pytest.raises(BadValue):
        subject_values.read_config(S, raw)


def test_a_config_value_is_read_into_the_order_of_the_log_with_its_keys_subject() -> None:
    raw = (
        b'{"compatibilityLevel":"NONE","normalize":true,"alias":null,"later":1,'
        b'"defaultMetadata":{"properties":{"b":"2","a":"1"},"tags":{}}}'
    )
    assert subject_values.read_config(S, raw) == (
        b'{"subject":"s","normalize":true,"compatibilityLevel":"NONE",'
        b'"defaultMetadata":{"properties":{"a":"1","b":"2"}}}'
    )


READERS = [
    values.read_schema,
    subject_values.read_mode,
    values.read_delete_mark,
    values.read_reservation,
    lambda raw: subject_values.read_config(S, raw),
    lambda raw: subject_values.read_association(ASSOCIATION, raw, 5),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MEMBERS = ("keytype", "subject", "version", "magic", "tenant", "context", "registrar", "id", "schema", "mode")
MORE = ("references", "metadata", "ruleSet", "md5", "deleted", "upto", "lifecycle", "createTs", "schemaType")


@given(st.binary() | st.dictionaries(st.sampled_from(MEMBERS + MORE) | st.text(), JSON).map(dumps))
def test_nothing_in_bytes_raises_anything_else(raw: bytes) -> None:
    with suppress(UnreadableKey):
        decode_key(raw)
    for read in READERS:
        with suppress(BadValue):
            read(raw)
