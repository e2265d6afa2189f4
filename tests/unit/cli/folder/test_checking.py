"""Checks without a registry: the verdicts of all formats at all levels, and lint rules."""

from __future__ import annotations

from pathlib import PurePath

import orjson
import pytest

from registry.cli.folder import report
from registry.cli.folder.checking import LintRules, check_files, lint
from registry.cli.folder.contents import Contents, FolderError, Version
from registry.cli.folder.memory_registry import MemoryRegistry
from registry.cli.folder.steps import Plan
from registry.domain import policies
from registry.domain.model import LATEST, Reference
from tests.unit.small_registry import INT, STRING, record

OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}


def one(text: str | dict, schema_type: str = "AVRO", **more) -> Contents:
    schema = text if isinstance(text, str) else orjson.dumps(text).decode()
    return Contents({"s": (Version(schema, schema_type, origin="s.avsc", **more),)})


def proto(kind: str) -> str:
    return f'syntax = "proto3";\nmessage M {{\n  {kind} a = 1;\n}}\n'


def verdict(found: Plan) -> str:
    (outcome,) = found.outcomes
    return outcome.verdict


@pytest.mark.parametrize(
    ("schema_type", "old", "new", "accepted"),
    [
        ("AVRO", record("R", "a"), record("R", "a", "b"), {"NONE", "FORWARD"}),
        ("AVRO", record("R", "a"), record("R", "a", "b?"), {"NONE", "FORWARD", "BACKWARD", "FULL"}),
        ("JSON", OPEN, {"type": "object"}, {"NONE", "BACKWARD"}),
        ("PROTOBUF", proto("int32"), proto("string"), {"NONE"}),
    ],
)
def test_each_format_is_compared_at_each_level(schema_type, old, new, accepted) -> None:
    levels = ("NONE", "BACKWARD", "FORWARD", "FULL")
    wanted, earlier = one(new, schema_type), [one(old, schema_type)]
    found = {each: check_files(wanted, earlier, each) for each in levels}
    assert {each for each in levels if found[each].possible} == accepted
    refused = [each for each in found.values() if not each.possible]
    changes = [one.change for each in refused for one in each.outcomes[0].result.changes]
    assert all(each.fix for each in changes if not each.compatible)


def test_the_default_level_is_backward_and_the_manifests_counts_otherwise() -> None:
    old, new = one(record("R", "a")), one(record("R", "a", "b"))
    assert verdict(check_files(new, [old])) == "incompatible"
    manifest = Contents(new.versions, {"s": {"compatibilityLevel": "FORWARD"}})
    assert verdict(check_files(manifest, [old])) == "compatible"
    assert verdict(check_files(manifest, [old], "FULL")) == "incompatible"


def test_transitive_levels_compare_with_every_earlier_folder() -> None:
    first, second, new = record("R", "a"), record("R", "a", "b?"), record("R", "a", "b")
    earlier = [one(first), one(second)]
    assert check_files(one(new), earlier, "BACKWARD").possible
    assert not check_files(one(new), earlier, "BACKWARD_TRANSITIVE").possible


def test_a_schema_that_is_only_written_differently_is_unchanged() -> None:
    assert verdict(check_files(one('{"type": "int"}'), [one(INT)], "FULL")) == "unchanged"


def test_references_are_followed_between_files_of_one_folder() -> None:
    def folder(field: str) -> Contents:
        text = '{"type":"record","name":"Order","fields":[{"name":"p","type":"Money"}]}'
        uses = Version(text, references=(Reference("Money", "money", LATEST),))
        return Contents({"a-order": (uses,), "money": (Version(record("Money", field)),)})

    found = check_files(folder("cents"), [folder("euros")], "FULL")
    assert {each.subject: each.verdict for each in found.outcomes} == {
        "money": "incompatible",
        "a-order": "skipped",
    }
    removed = Contents({"a-order": folder("cents").versions["a-order"]})
    gone = check_files(removed, [folder("cents")])
    assert [each.message for each in gone.refused_outcomes] == [
        "refers to money, which is not among these files"
    ]


def test_an_earlier_schema_that_is_not_valid_leaves_no_verdict() -> None:
    with pytest.raises(FolderError, match="an earlier schema is not valid"):
        check_files(one(INT), [one("{")])


def test_a_refusal_is_reported_with_path_rule_both_parts_and_fix() -> None:
    found = check_files(one(record("R", "a", "b")), [one(record("R", "a"))])
    text = "\n".join(report.verdict_lines(found))
    assert "! s (s.avsc): incompatible at BACKWARD" in text
    assert "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1" in text
    assert "fix: give `b` a default" in text
    assert "1 of 1 schema refused" in text
    (schema,) = report.verdict_json(found)["schemas"]
    assert (schema["file"], schema["verdict"], schema["level"]) == ("s.avsc", "incompatible", "BACKWARD")
    assert schema["changes"][0] | {"old": "", "new": ""} == {
        "type": "READER_FIELD_MISSING_DEFAULT_VALUE",
        "path": "/fields/1",
        "old": "",
        "new": "",
        "level": "BACKWARD",
        "direction": "BACKWARD",
        "versionCompared": 1,
        "compatible": False,
        "fix": "give `b` a default",
    }


def test_annotations_cannot_be_forged_by_names() -> None:
    schema = Version("{", origin="a,b:c\n::error::x.avsc")
    lines = list(report.plan_annotations(check_files(Contents({"s": (schema,)}), []), PurePath()))
    assert len(lines) == 1
    assert lines[0].startswith("::error file=a%2Cb%3Ac%0A%3A%3Aerror%3A%3Ax.avsc,title=s is refused::")
    assert "\n" not in lines[0]


def test_lint_rules_are_errors_or_warnings() -> None:
    wanted = one(record("lower", "Field"))
    (found,) = lint(wanted, LintRules(("pascal_case_types",), ("snake_case_fields",)), MemoryRegistry())
    assert [each.rule for each in found.errors] == ["pascal_case_types"]
    assert [each.rule for each in found.warnings] == ["snake_case_fields"]
    assert found.is_refused
    text = "\n".join(report.lint_lines([found]))
    assert "s (s.avsc): error: pascal_case_types at " in text
    assert "1 schemas: 1 errors, 1 warnings" in text
    assert [each["severity"] for each in report.lint_json([found])["schemas"][0]["findings"]] == [
        "error",
        "warning",
    ]
    assert [line.split()[0] for line in report.lint_annotations([found], PurePath())] == [
        "::error",
        "::warning",
    ]


def test_lint_takes_the_rules_of_a_registrys_policies() -> None:
    rules = policies.parse('[[policy]]\nsubjects = ["s"]\nlint_errors = ["namespace"]\n')
    wanted = Contents({"s": (Version(record("R")),), "t": (Version(record("R")),)})
    found = {each.subject: each.is_refused for each in lint(wanted, rules, MemoryRegistry())}
    assert found == {"s": True, "t": False}


def test_lint_examines_the_last_version_and_refuses_what_is_not_valid() -> None:
    wanted = Contents(
        {"s": (Version(record("lower"), number=1), Version(STRING, number=2)), "t": (Version("{"),)}
    )
    found = {each.subject: each for each in lint(wanted, LintRules(("pascal_case_types",)), MemoryRegistry())}
    assert not found["s"].is_refused
    assert found["t"].invalid
