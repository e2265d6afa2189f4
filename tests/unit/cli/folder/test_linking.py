"""References that are inferred from the schemas of a folder and the paths of its files."""

from __future__ import annotations

import json
from pathlib import PurePath

import pytest

from registry.cli.folder import report
from registry.cli.folder.checking import LintRules, check_files, lint
from registry.cli.folder.contents import MANIFEST, Contents, Version
from registry.cli.folder.memory_registry import MemoryRegistry
from registry.cli.folder.reading import read
from registry.cli.folder.writing import files_of
from registry.domain.model import LATEST, Reference
from tests.unit.small_registry import record

MONEY = '{"type":"record","name":"Money","namespace":"com.acme","fields":[{"name":"cents","type":"long"}]}'
PROTO = 'syntax = "proto3";\npackage %s;\n%smessage M {\n  %s m = 1;\n}\n'


def order(kind: str = "com.acme.Money", name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": "price", "type": kind}]})


def folder(manifest: str = "", **files: str) -> Contents:
    return read({MANIFEST: manifest.encode(), **{name: text.encode() for name, text in files.items()}})


def refers(contents: Contents, subject: str) -> list[tuple[str, str, int]]:
    (version,) = contents.versions[subject]
    return [(each.name, each.subject, each.version) for each in version.references]


def test_avro_schemas_refer_to_full_names() -> None:
    inner = (
        '{"type":"record","name":"Wrap","namespace":"com.acme",'
        '"fields":[{"name":"c","type":{"type":"enum","name":"Cur","symbols":["A"]}}]}'
    )
    both = (
        '{"type":"record","name":"Pay","namespace":"com.acme","fields":[{"name":"a","type":["null","Cur"]},'
        '{"name":"b","type":{"type":"array","items":{"type":"map","values":"Money"}}},'
        '{"name":"c","type":["null","Pay"]},{"name":"d","type":"Wrap"}]}'
    )
    found = folder(**{"m/money-value.avsc": MONEY, "wrap.avsc": inner, "a-pay.avsc": both, "o.avsc": order()})
    assert refers(found, "o") == [("com.acme.Money", "money-value", LATEST)]
    assert refers(found, "a-pay") == [
        ("com.acme.Money", "money-value", LATEST),
        ("com.acme.Wrap", "wrap", LATEST),
    ]
    assert refers(found, "money-value") == refers(found, "wrap") == []
    assert check_files(found, []).possible


def test_a_name_without_a_namespace_may_be_one_of_no_namespace() -> None:
    user = '{"type":"record","name":"a.Order","fields":[{"name":"m","type":"Plain"}]}'
    found = folder(**{"plain.avsc": record("Plain"), "user.avsc": user})
    assert [each[1] for each in refers(found, "user")] == ["plain"]
    assert check_files(found, []).possible


def test_json_schemas_refer_to_ids_and_relative_paths() -> None:
    found = folder(**{
        "a/user.json": '{"$ref":"../common/name.json#/definitions/first","properties":{"default":'
                       '{"$ref":"age.json"}},"default":{"$ref":"nothing.json"}}',
        "common/name.json": '{"definitions":{"first":{"type":"string"}}}',
        "a/age.json": '{"type":"integer"}',
        "shop.json": '{"$id":"https://a.example/s/shop.json","items":{"$ref":"item.json"},"not":{"$ref":"#"}}',
        "x/thing.json": '{"$id":"https://a.example/s/item.json","type":"string"}',
    })  # fmt: skip
    assert refers(found, "user") == [
        ("../common/name.json", "name", LATEST), ("age.json", "age", LATEST),
    ]  # fmt: skip
    assert refers(found, "shop") == [("item.json", "thing", LATEST)]
    assert check_files(found, []).possible


def test_protobuf_files_refer_to_paths_of_imports() -> None:
    imports = 'import "acme/money.proto";\nimport public "q.proto";\nimport "google/protobuf/any.proto";\n'
    found = folder(**{
        "order.proto": PROTO % ("o", imports, "acme.M"),
        "protos/acme/money.proto": PROTO % ("acme", "", "int32"),
        "q/1.proto": PROTO % ("q", "", "int32"),
        "q/2.proto": PROTO % ("q", "", "int32") + "// later\n",
    })  # fmt: skip
    assert refers(found, "order") == [("acme/money.proto", "money", LATEST), ("q.proto", "q", LATEST)]
    assert check_files(found, []).possible


def test_an_import_that_several_paths_end_with_is_not_guessed() -> None:
    user = {"order.proto": PROTO % ("o", 'import "money.proto";\n', "a.M")}
    some = {"a/x/money.proto": PROTO % ("a", "", "int32"), "b/y.proto": PROTO % ("b", "", "int32")}
    assert [each[1] for each in refers(folder(**user, **some), "order")] == ["money"]
    manifest = '[subject.other]\nfile = "b/money.proto"'
    two = folder(manifest, **user, **some, **{"b/money.proto": PROTO % ("b", "", "int32")})
    assert refers(two, "order") == []
    (refused,) = check_files(two, []).refused_outcomes
    assert "money.proto is in a/x/money.proto and b/money.proto: name one" in refused.message


def test_contexts_are_kept_apart_and_reached_by_qualified_names() -> None:
    staging = "%3A.staging%3A"
    near = folder(**{"m.avsc": MONEY, f"{staging}m.avsc": MONEY, f"{staging}o.avsc": order()})
    assert refers(near, ":.staging:o") == [("com.acme.Money", "m", LATEST)]
    far = folder(**{f"{staging}m.avsc": MONEY, "o.avsc": order()})
    assert refers(far, "o") == [("com.acme.Money", ":.staging:m", LATEST)]
    assert check_files(near, []).possible
    assert check_files(far, []).possible


def test_a_table_by_hand_replaces_what_is_inferred() -> None:
    manifest = '[subject.o]\nreferences = [{ name = "X", subject = "other" }]'
    found = folder(manifest, **{"m.avsc": MONEY, "other.avsc": MONEY, "o.avsc": order()})
    assert refers(found, "o") == [("X", "other", LATEST)]
    assert check_files(found, []).possible


@pytest.mark.parametrize(
    ("manifest", "files", "told"),
    [
        ("", {}, "no file here has com.acme.Money"),
        ("[subject.o]\nreferences = []", {"m.avsc": MONEY},
         "com.acme.Money is in m.avsc: add it to the references in registrar.toml"),
        ("", {"m.avsc": MONEY, "n.avsc": MONEY.replace("long", "int")},
         "com.acme.Money is in m.avsc and n.avsc: name one of them under references in registrar.toml"),
    ],
)  # fmt: skip
def test_a_name_that_is_missing_is_reported_with_the_file_that_has_it(
    manifest: str, files: dict[str, str], told: str
) -> None:
    found = folder(manifest, **{"o.avsc": order()}, **files)
    (refused,) = check_files(found, []).refused_outcomes
    assert refused.verdict == "rejected"
    assert refused.message.endswith(told)
    assert lint(found, LintRules(), MemoryRegistry())[-1].invalid.endswith(told)


def test_one_cause_is_reported_once_and_its_consequences_are_counted() -> None:
    users = {f"u{number}.avsc": order(name=f"O{number}") for number in range(5)}
    bad = folder(**{"m.avsc": MONEY.replace('"long"', '"lang"'), **users})
    for found in (check_files(bad, []), check_files(folder(**users), [])):
        assert len(found.refused_outcomes) == len(found.outcomes)
        annotations = [*report.plan_annotations(found, PurePath())]
        assert len(annotations) == 1
        more = len(found.refused_outcomes) - 1
        assert annotations[0].endswith(f"%0Abecause of this, {more} more schemas are refused")
        told = [line for line in report.verdict_lines(found) if line.startswith("!")]
        assert len(told) == 1
        assert [bool(each["because"]) for each in report.verdict_json(found)["schemas"]].count(False) == 1


def test_two_hundred_schemas_need_no_table() -> None:
    """Five schemas are used by 195, each also by the one before it: nothing is written down."""
    files = {f"base{each}.avsc": record(f"Base{each}", "a") for each in range(5)}
    for number in range(195):
        fields = [{"name": "b", "type": f"Base{number % 5}"}]
        if number:
            fields.append({"name": "before", "type": f"User{number - 1}"})
        files[f"user{number}.avsc"] = json.dumps(
            {"type": "record", "name": f"User{number}", "fields": fields}
        )
    found = folder(**files)
    assert sum(len(each.references) for _, each in found) == 195 + 194
    assert len(check_files(found, []).outcomes) == 200
    assert check_files(found, []).possible


def test_a_download_writes_no_table_that_would_be_inferred() -> None:
    uses = Version(order(), number=1, references=(Reference("com.acme.Money", "money", 1),))
    named = Version(order(name="P"), number=1, references=(Reference("Other", "money", 1),))
    alone = Version('{"$ref":"n.json"}', "JSON", number=1)
    contents = Contents({
        "money": (Version(MONEY, number=1),), "o": (uses,), "p": (named,), "j": (alone,),
    })  # fmt: skip
    tree, _ = files_of(contents, {"n.json": b'{"type":"string"}'})
    again = read({"n.json": b'{"type":"string"}', **tree})
    assert b"[subject.o]" not in tree[MANIFEST]
    assert b"[subject.j]\nreferences = []\n" in tree[MANIFEST]
    assert [refers(again, each) for each in ("o", "p", "j")] == [
        [("com.acme.Money", "money", LATEST)], [("Other", "money", LATEST)], [],
    ]  # fmt: skip
