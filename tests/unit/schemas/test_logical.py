"""Logical types: the readers of the three formats, and the rules of Flink and Iceberg.

The pairs and texts are those of Confluent 8.4's checker.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.domain.schemas import FORMATS, Budget, Exhausted
from registry.domain.schemas.logical import comparing, logical_reports, target_reports
from registry.domain.schemas.logical.engines import FLINK, ICEBERG_V2, ICEBERG_V3, Engine
from registry.domain.schemas.logical.reading import NotLogical
from registry.domain.schemas.logical.types import Array, Field, Kind, Leaf, Map, Shape, Struct, Type

INT, BIGINT, SMALLINT, DOUBLE = (
    Type(Leaf(each), True) for each in (Kind.INT, Kind.BIGINT, Kind.SMALLINT, Kind.DOUBLE)
)
STRING = Type(Leaf(Kind.VARCHAR, 2147483647), True)
REQUIRED_INT = INT._replace(nullable=False)
ENUM = Type(Leaf(Kind.ENUM), True)


def leaf(kind: Kind, size: int | None = None, scale: int | None = None) -> Type:
    return Type(Leaf(kind, size, scale), True)


def shape(of: Shape) -> Type:
    return Type(of, True)


def struct(*fields: tuple[str, Type] | Field, is_union: bool = False) -> Type:
    made = Struct(is_union=is_union)
    made.fields += (each if isinstance(each, Field) else Field(*each) for each in fields)
    return shape(made)


def x(type: Type) -> Type:
    return struct(("x", type))


def rules(old: Type, new: Type, engine: Engine) -> list[str]:
    return [f"{each.rule} {each.path}" for each in comparing.change_findings(old, new, engine, Budget())]


UNSUPPORTED, MISMATCH = ["UNSUPPORTED_TYPE_CHANGE x"], ["TYPE_MISMATCH x"]
UNION = struct(("a", INT), ("b", STRING), is_union=True)
Y_REQUIRED = struct(("x", INT), ("y", REQUIRED_INT))
Y_DEFAULT = struct(("x", INT), Field("y", REQUIRED_INT, 0))


@pytest.mark.parametrize(
    ("old", "new", "flink", "iceberg"),
    [
        (x(INT), x(BIGINT), [], []),
        (x(INT), x(SMALLINT), UNSUPPORTED, []),
        (x(INT), x(DOUBLE), [], UNSUPPORTED),
        (x(BIGINT), x(DOUBLE), UNSUPPORTED, UNSUPPORTED),
        (x(INT), x(leaf(Kind.DECIMAL, 10, 0)), [], UNSUPPORTED),
        (x(INT), x(leaf(Kind.DECIMAL, 9, 0)), UNSUPPORTED, UNSUPPORTED),
        (x(leaf(Kind.DECIMAL, 10, 2)), x(leaf(Kind.DECIMAL, 12, 2)), [], []),
        (x(leaf(Kind.DECIMAL, 10, 2)), x(leaf(Kind.DECIMAL, 12, 3)), UNSUPPORTED, UNSUPPORTED),
        (x(leaf(Kind.DECIMAL, 10)), x(leaf(Kind.DECIMAL, 10, 0)), [], []),
        (x(leaf(Kind.VARCHAR, 20)), x(leaf(Kind.VARCHAR, 10)), UNSUPPORTED, []),
        (x(leaf(Kind.CHAR, 3)), x(leaf(Kind.CHAR, 4)), UNSUPPORTED, []),
        (x(leaf(Kind.CHAR, 3)), x(leaf(Kind.VARCHAR, 3)), [], []),
        (x(leaf(Kind.BINARY, 4)), x(leaf(Kind.VARBINARY, 4)), [], UNSUPPORTED),
        (x(leaf(Kind.TIMESTAMP, 3)), x(leaf(Kind.TIMESTAMP, 6)), UNSUPPORTED, []),
        (x(leaf(Kind.TIMESTAMP, 6)), x(leaf(Kind.TIMESTAMP, 9)), UNSUPPORTED, UNSUPPORTED),
        (x(leaf(Kind.TIMESTAMP, 3)), x(leaf(Kind.TIMESTAMP_LTZ, 3)), UNSUPPORTED, UNSUPPORTED),
        (x(leaf(Kind.TIME, 3)), x(leaf(Kind.TIME, 9)), UNSUPPORTED, []),
        (x(leaf(Kind.DATE)), x(leaf(Kind.TIMESTAMP, 3)), UNSUPPORTED, UNSUPPORTED),
        (x(ENUM), x(STRING), [], []),
        (x(STRING), x(ENUM), [], []),
        (
            x(INT),
            struct(Field("x", REQUIRED_INT, 1)),
            ["NULLABLE_TO_NON_NULLABLE x"],
            ["NULLABLE_TO_NON_NULLABLE x"],
        ),
        (
            struct(Field("x", REQUIRED_INT, 1)),
            x(REQUIRED_INT),
            ["NON_NULLABLE_DEFAULT_REMOVED x"],
            [],
        ),
        (struct(Field("x", REQUIRED_INT, 1)), struct(Field("x", REQUIRED_INT, 2)), [], []),
        (x(INT), struct(("x", INT), ("y", INT)), [], []),
        (x(INT), Y_REQUIRED, ["REQUIRED_FIELD_ADDED y"], ["REQUIRED_FIELD_ADDED y"]),
        (x(INT), Y_DEFAULT, [], ["REQUIRED_FIELD_ADDED y"]),
        (struct(("x", INT), ("y", INT)), x(INT), [], ["FIELD_DELETED y"]),
        (struct(("x", INT), ("y", INT)), struct(("y", INT), ("x", INT)), [], ["FIELD_REORDERED x"]),
        (struct(("x", INT), ("y", INT)), struct(("x", INT), ("n", INT), ("y", INT)), [], []),
        (x(INT), struct(("X", INT)), [], ["FIELD_DELETED x"]),
        (
            x(shape(Array(INT))),
            x(shape(Array(REQUIRED_INT))),
            ["NULLABLE_TO_NON_NULLABLE x[]"],
            [],
        ),
        (
            x(shape(Array(struct(("a", INT))))),
            x(shape(Array(struct(("a", BIGINT), ("b", REQUIRED_INT))))),
            ["REQUIRED_FIELD_ADDED x[].b"],
            ["REQUIRED_FIELD_ADDED x[].b"],
        ),
        (x(shape(Map(INT, INT))), x(shape(Map(BIGINT, INT))), [], ["MAP_KEY_TYPE_MISMATCH x"]),
        (
            x(shape(Map(STRING, INT))),
            x(shape(Map(INT, INT))),
            ["UNSUPPORTED_TYPE_CHANGE x{key}"],
            ["MAP_KEY_TYPE_MISMATCH x"],
        ),
        (
            x(shape(Array(STRING, is_multiset=True))),
            x(shape(Map(STRING, REQUIRED_INT))),
            MISMATCH,
            [],
        ),
        (x(shape(Array(INT))), x(shape(Map(STRING, INT))), MISMATCH, MISMATCH),
        (x(struct(("a", INT), ("b", INT))), x(struct(("a", INT))), [], ["FIELD_DELETED x.b"]),
        (x(UNION), x(struct(("a", INT), ("b", STRING), ("c", INT), is_union=True)), [], []),
        (x(UNION), x(struct(("a", INT), is_union=True)), [], ["FIELD_DELETED x.b"]),
        (
            x(UNION),
            x(struct(("b", STRING), ("a", INT), is_union=True)),
            [],
            ["FIELD_REORDERED x.a"],
        ),
        (x(INT), x(UNION), MISMATCH, MISMATCH),
    ],
)
def test_changes_get_the_verdicts_of_flink_and_iceberg(
    old: Type, new: Type, flink: list[str], iceberg: list[str]
) -> None:
    assert rules(old, new, FLINK) == flink
    assert rules(old, new, ICEBERG_V2) == iceberg


def test_format_version_3_of_iceberg_stores_defaults() -> None:
    assert rules(x(INT), Y_DEFAULT, ICEBERG_V3) == []
    assert rules(x(INT), Y_REQUIRED, ICEBERG_V3) == ["REQUIRED_FIELD_ADDED y"]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (INT, leaf(Kind.DECIMAL, 9, 0), "(target cannot represent the full range of the source)"),
        (leaf(Kind.CHAR, 3), leaf(Kind.CHAR, 4), "(a fixed-length type cannot change length)"),
        (leaf(Kind.VARCHAR, 4), leaf(Kind.VARCHAR, 3), "(length may not shrink)"),
        (
            leaf(Kind.TIMESTAMP, 3),
            leaf(Kind.TIMESTAMP, 6),
            "(precision selects the unit of the stored value and cannot change)",
        ),
        (
            leaf(Kind.DECIMAL, 10, 2),
            leaf(Kind.DECIMAL, 9, 2),
            "(decimal scale must be unchanged and precision may not shrink)",
        ),
    ],
)
def test_refused_types_come_with_the_reason(old: Type, new: Type, text: str) -> None:
    [found] = comparing.change_findings(x(old), x(new), FLINK, Budget())
    assert str(found) == f"UNSUPPORTED_TYPE_CHANGE at 'x': type changed from {old} to {new} {text}"


@pytest.mark.parametrize(
    ("type", "flink", "iceberg"),
    [
        (struct(), [], ["EMPTY_STRUCT"]),
        (struct(("a", INT), ("A", INT)), [], ["FIELD_NAME_CASE_COLLISION"]),
        (x(leaf(Kind.DECIMAL, 50, 0)), ["PRECISION_OUT_OF_RANGE"], ["PRECISION_OUT_OF_RANGE"]),
        (x(leaf(Kind.DECIMAL, 5, 6)), ["SCALE_OUT_OF_RANGE"], ["SCALE_OUT_OF_RANGE"]),
        (x(leaf(Kind.CHAR, 0)), ["LENGTH_OUT_OF_RANGE"], ["LENGTH_OUT_OF_RANGE"]),
        (x(leaf(Kind.VARCHAR, 0)), [], []),
        (x(leaf(Kind.TIMESTAMP, 9)), [], ["UNREPRESENTABLE_TYPE"]),
        (x(leaf(Kind.VARIANT)), [], ["UNREPRESENTABLE_TYPE"]),
        (x(shape(Array(INT, is_multiset=True))), [], []),
    ],
)
def test_types_that_an_engine_cannot_hold_are_invalid(
    type: Type, flink: list[str], iceberg: list[str]
) -> None:
    assert [each.rule for each in comparing.limit_findings(type, FLINK, Budget())] == flink
    assert [each.rule for each in comparing.limit_findings(type, ICEBERG_V2, Budget())] == iceberg


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def read(schema_type: str, text: str) -> Type:
    return FORMATS[schema_type].parse(text).logical(Budget())


def columns(schema_type: str, text: str) -> dict[str, str]:
    found = read(schema_type, text).shape
    assert isinstance(found, Struct)
    return {each.name: f"{each.type}{'' if each.type.nullable else ' NOT NULL'}" for each in found.fields}


def test_avro_is_read() -> None:
    def field(name: str, type: Any) -> dict[str, Any]:
        return {"name": name, "type": type}

    found = columns(
        "AVRO",
        avro(
            field("i", "int"),
            field("n", ["null", "long"]),
            field("small", {"type": "int", "connect.type": "int16"}),
            field("d", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
            field("t", {"type": "long", "logicalType": "timestamp-millis"}),
            field("l", {"type": "long", "logicalType": "local-timestamp-micros", "flink.precision": 5}),
            field("f", {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}),
            field("c", {"type": "string", "flink.minLength": 3, "flink.maxLength": 3}),
            field("a", {"type": "array", "items": "int"}),
            field("m", {"type": "map", "values": "int"}),
            field("ms", {"type": "map", "values": "int", "flink.type": "multiset"}),
            field("u", ["int", "string", "null"]),
            field("e", {"type": "enum", "name": "E", "symbols": ["A"]}),
        ),
    )
    assert found == {
        "i": "INT NOT NULL",
        "n": "BIGINT",
        "small": "SMALLINT NOT NULL",
        "d": "DECIMAL(9, 2) NOT NULL",
        "t": "TIMESTAMP_LTZ(3) NOT NULL",
        "l": "TIMESTAMP(5) NOT NULL",
        "f": "BINARY(16) NOT NULL",
        "c": "CHAR(3) NOT NULL",
        "a": "ARRAY NOT NULL",
        "m": "MAP NOT NULL",
        "ms": "MULTISET NOT NULL",
        "u": "UNION",
        "e": "ENUM NOT NULL",
    }


def test_json_schema_is_read() -> None:
    properties = {
        "i": {"type": "integer"},
        "f": {"type": "number", "connect.type": "float32"},
        "s": {"type": "string", "maxLength": 5},
        "o": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
        "u": {"oneOf": [{"type": "integer"}, {"type": "string", "title": "t"}]},
        "v": {},
        "d": {"type": "number", "title": "org.apache.kafka.connect.data.Date", "connect.type": "int32"},
        "m": {"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}},
        "a": {"type": "array", "items": {"$ref": "#/$defs/A"}},
        "z": {"type": "string", "connect.index": 0},
        "e": {"type": "string", "enum": ["a", "b"]},
    }
    text = {
        "type": "object",
        "properties": properties,
        "required": ["i", "o"],
        "$defs": {"A": {"type": "object"}},
    }
    found = columns("JSON", json.dumps(text))
    assert list(found) == ["z", "a", "d", "e", "f", "i", "m", "o", "s", "u", "v"]
    assert found | {} == {
        "z": "VARCHAR(2147483647)",
        "a": "ARRAY",
        "d": "DATE",
        "e": "ENUM",
        "f": "FLOAT",
        "i": "BIGINT NOT NULL",
        "m": "MAP",
        "o": "BOOLEAN",
        "s": "VARCHAR(5)",
        "u": "UNION",
        "v": "VARIANT",
    }


def test_protobuf_is_read() -> None:
    text = """
        syntax = "proto3";
        import "google/protobuf/timestamp.proto";
        import "google/protobuf/wrappers.proto";
        message M {
          int32 i = 1;
          optional uint64 o = 2;
          oneof choice { string a = 3; bytes b = 4; }
          repeated string r = 5;
          map<string, int32> m = 6;
          google.protobuf.Timestamp t = 7;
          google.protobuf.Int64Value w = 8;
          N n = 9;
          E e = 10;
          enum E { A = 0; }
        }
        message N { bool b = 1; }
    """
    found = columns("PROTOBUF", text)
    assert list(found)[-1] == "choice"
    assert found == {
        "i": "INT NOT NULL",
        "o": "BIGINT",
        "choice": "UNION",
        "r": "ARRAY NOT NULL",
        "m": "MAP NOT NULL",
        "t": "TIMESTAMP_LTZ(9)",
        "w": "BIGINT",
        "n": "STRUCT",
        "e": "ENUM NOT NULL",
    }


def test_groups_of_protobuf_are_columns_too() -> None:
    text = """
        message M {
          required int32 i = 1;
          optional group Inner = 2 { optional int32 a = 1; }
          repeated group Each = 3 { required int32 a = 1; }
          oneof choice { group Other = 4 { optional int32 a = 1; } }
        }
    """
    assert columns("PROTOBUF", text) == {
        "i": "INT NOT NULL",
        "inner": "STRUCT",
        "each": "ARRAY NOT NULL",
        "choice": "UNION",
    }


@pytest.mark.parametrize(
    ("schema_type", "text", "message"),
    [
        ("AVRO", avro({"name": "n", "type": "null"}), "Standalone NULL type is not supported"),
        (
            "AVRO",
            avro(
                {
                    "name": "t",
                    "type": {"type": "long", "logicalType": "timestamp-millis", "flink.precision": 5},
                }
            ),
            "flink.precision 5 exceeds the precision carried by Avro logical type 'timestamp-millis' (3)",
        ),
        ("JSON", '{"type": "array"}', "Array schema did not specify the items type"),
        (
            "JSON",
            '{"properties": {"a": {"const": 1}}}',
            "Unsupported JSON schema type org.everit.json.schema.ConstSchema",
        ),
        (
            "JSON",
            json.dumps(
                {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}
            ),
            "Schema type nesting depth exceeds the maximum of 256",
        ),
        (
            "PROTOBUF",
            'syntax = "proto3"; import "google/protobuf/struct.proto"; '
            "message M { google.protobuf.Struct t = 1; }",
            "Cyclic schemas are not supported.\nFound a cycle in the field: t.fields.value.struct_value",
        ),
    ],
)
def test_schemas_without_a_logical_type_are_refused(schema_type: str, text: str, message: str) -> None:
    with pytest.raises(NotLogical) as refused:
        read(schema_type, text)
    assert str(refused.value) == message


def test_a_recursive_type_is_invalid_everywhere() -> None:
    reports = logical_reports(read("AVRO", avro({"name": "n", "type": ["null", "R"]})), None, (), Budget())
    assert [each.message for each in reports] == [
        f"Logical validity ({mode}): CYCLIC_TYPE at 'n': named type 'R' refers to itself, and cannot be "
        "represented by a non-recursive type system"
        for mode in ("FLINK", "ICEBERG_V2")
    ]


def test_reports_come_by_direction_and_engine() -> None:
    old = read("PROTOBUF", 'syntax = "proto3"; message M { int32 a = 1; }')
    new = read("PROTOBUF", 'syntax = "proto3"; message M { int32 b = 1; }')
    found = logical_reports(new, old, ("old", "new"), Budget())
    assert [(each.direction, each.engine) for each in found] == [
        ("backward", "FLINK"), ("backward", "ICEBERG_V2"), ("forward", "FLINK"), ("forward", "ICEBERG_V2"),
    ]  # fmt: skip
    rules = [[f"{one.rule} {one.path}" for one in each.findings] for each in found]
    assert rules[1] == ["REQUIRED_FIELD_ADDED b", "FIELD_DELETED a"]


def test_messages_used_twice_at_each_level_are_compared_once() -> None:
    levels = [f"message M{each} {{ M{each + 1} a = 1; M{each + 1} b = 2; }}" for each in range(60)]
    text = 'syntax = "proto3"; ' + " ".join(levels) + " message M60 { %s v = 1; }"
    old, new = (read("PROTOBUF", text % kind) for kind in ("int32", "string"))
    budget = Budget(10_000)
    assert rules(old, new, FLINK) == ["UNSUPPORTED_TYPE_CHANGE " + ".".join(["a"] * 60 + ["v"])]
    assert comparing.limit_findings(new, ICEBERG_V2, budget) == []
    with pytest.raises(Exhausted):
        comparing.change_findings(old, new, FLINK, Budget(10))


def target_rules(target: str, new: Type, old: Type | None = None) -> list[str]:
    reports = target_reports(new, old, [target], Budget())
    return [f"{each.rule} {each.path}" for report in reports for each in report.findings]


def test_targets_name_what_logical_lets_pass() -> None:
    """Narrowing, elements that may no longer be null, and integers without a sign."""
    elements, required_elements = (x(shape(Array(each))) for each in (INT, REQUIRED_INT))
    tightened = ["NULLABLE_TO_NON_NULLABLE x[]"]
    unsigned = x(Type(Leaf(Kind.BIGINT, is_unsigned=True), True))
    for target in ("iceberg-v2", "iceberg-v3"):
        assert target_rules(target, x(SMALLINT), x(INT)) == UNSUPPORTED
        assert target_rules(target, x(INT), x(SMALLINT)) == []
        assert target_rules(target, required_elements, elements) == tightened
        assert target_rules(target, unsigned) == ["UNREPRESENTABLE_TYPE x"]
    assert target_rules("duckdb", required_elements, elements) == tightened
    assert target_rules("flink", unsigned) == ["UNREPRESENTABLE_TYPE x"]
    for target in ("parquet", "bigquery"):
        assert target_rules(target, x(SMALLINT), x(INT)) == UNSUPPORTED


def test_an_alias_of_a_field_that_keeps_its_name_is_no_rename() -> None:
    old = struct(("a", REQUIRED_INT), ("z", REQUIRED_INT))
    new = struct(Field("a", REQUIRED_INT, aliases=("z",)))
    assert target_rules("duckdb", new, old) == ["REQUIRED_FIELD_DELETED z"]


def test_clickhouse_does_not_write_defaults_inside_columns() -> None:
    added = struct(("a", INT), Field("b", REQUIRED_INT, 7))
    assert target_rules("clickhouse", added, struct(("a", INT))) == []
    assert target_rules("clickhouse", x(added), x(struct(("a", INT)))) == ["REQUIRED_FIELD_ADDED x.b"]


def test_a_struct_inside_a_column_keeps_one_of_its_fields() -> None:
    """Spark reads it as null otherwise, and ClickHouse fills the new fields by position."""
    old, new, both = struct(("a", INT)), struct(("b", INT)), struct(("b", INT), ("a", INT))
    for target in ("spark", "parquet", "clickhouse"):
        assert target_rules(target, x(new), x(old)) == ["ALL_FIELDS_REPLACED x"]
        assert target_rules(target, x(both), x(old)) == target_rules(target, new, old) == []
    assert target_rules("delta", x(new), x(old)) == []


def test_spark_merges_schemas_of_files_without_changing_a_type() -> None:
    def decimal(precision: int, scale: int) -> Type:
        return x(Type(Leaf(Kind.DECIMAL, precision, scale), nullable=True))

    assert target_rules("parquet", x(INT), x(SMALLINT)) == UNSUPPORTED
    assert target_rules("parquet", decimal(12, 4), decimal(10, 2)) == UNSUPPORTED
    assert target_rules("parquet", decimal(12, 2), decimal(10, 2)) == []


def test_enums_become_texts_in_clickhouse() -> None:
    old = x(Type(Leaf(Kind.ENUM, symbols=("a",)), nullable=True))
    assert target_rules("clickhouse", x(STRING), old) == []
    assert target_rules("clickhouse", old, x(STRING)) == UNSUPPORTED


def test_symbols_of_json_enums_are_read() -> None:
    old, new = (read("JSON", json.dumps({"properties": {"x": {"enum": each}}})) for each in (["a", 1], ["a"]))
    assert target_rules("clickhouse", new, old) == UNSUPPORTED


MANY = 1000
REFERRING = {f"p{each}": {"$ref": "#/definitions/d"} for each in range(MANY)}


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        (
            "JSON",
            json.dumps({
                "properties": REFERRING,
                "definitions": {"d": {key: [{"properties": {f"q{each}": {}}} for each in range(MANY)]}},
            }),
        )
        for key in ("allOf", "oneOf")
    ] + [
        (
            "PROTOBUF",
            f"syntax = \"proto3\"; package {'.'.join(['p' * 10] * MANY)}; message M {{ "
            + " ".join(f"N f{each} = {each};" for each in range(1, MANY))
            + " } message N { int32 a = 1; }",
        ),
    ],
)  # fmt: skip
def test_what_many_parts_refer_to_is_paid_for_each_time(schema_type: str, text: str) -> None:
    schema = FORMATS[schema_type].parse(text)
    with pytest.raises(Exhausted):
        schema.logical(Budget(100 * MANY))


def test_an_enum_that_many_fields_have_is_read_once() -> None:
    constants = " ".join(f"C{each} = {each};" for each in range(MANY))
    fields = " ".join(f"E f{each} = {each};" for each in range(1, MANY))
    found = read("PROTOBUF", f'syntax = "proto3"; enum E {{ {constants} }} message M {{ {fields} }}').shape
    assert isinstance(found, Struct)
    assert len({id(each.type.shape) for each in found.fields}) == 1
