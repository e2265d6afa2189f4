"""Folders that ``registrar snapshot export`` wrote, and people may have edited."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.cli.folder.contents import FolderError, contents_of, is_export
from registry.domain.model import Reference

MONEY: dict[str, Any] = {"subject": "money", "version": 2, "id": 7, "schema": '"int"'}
ORDER: dict[str, Any] = {
    "subject": ":.eu:order",
    "version": 1,
    "id": 8,
    "schema": "{}",
    "schemaType": "JSON",
    "references": [{"name": "m", "subject": "money", "version": 2}],
    "metadata": {"properties": {"owner": "me"}},
    "deleted": True,
    "guid": "of no interest",
}


def tree(**files: Any) -> dict[str, bytes]:
    found = {"snapshot.json": {}, "configs.json": {}, "modes.json": {}} | {
        f"{name.replace('__', '/')}.json": content for name, content in files.items()
    }
    return {
        path: each if isinstance(each, bytes) else json.dumps(each).encode() for path, each in found.items()
    }


def test_an_export_is_identified_by_its_files() -> None:
    assert is_export(tree())
    for name in tree():
        assert not is_export({path: data for path, data in tree().items() if path != name})


def test_versions_configs_and_modes_are_read() -> None:
    earlier = {**MONEY, "version": 1, "id": 3}
    found = contents_of(
        tree(
            b__2__entity=MONEY,
            a__1__entity=ORDER,
            c__entity=earlier,
            configs={":.:money": {"compatibilityLevel": "FULL"}},
            modes={"": {"mode": "READONLY"}},
        )
    )
    assert [each.number for each in found.versions["money"]] == [1, 2]
    (order,) = found.versions[":.eu:order"]
    assert (order.schema_type, order.schema_id, order.deleted) == ("JSON", 8, True)
    assert order.references == (Reference("m", "money", 2),)
    assert order.metadata is not None
    assert order.origin == "a/1/entity.json"
    assert found.configs == {"money": {"compatibilityLevel": "FULL"}}
    assert found.modes == {"": "READONLY"}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"modes": {"a": "READONLY"}}, "modes.json: Expected `object`, got `str` - at `$[...]`"),
        ({"modes": {"a": {}}}, "modes.json: Object missing required field `mode`"),
        ({"modes": {"a": {"mode": 1}}}, "modes.json: Expected `str`, got `int`"),
        ({"configs": {"a": 7}}, "configs.json: Expected `object`, got `int`"),
        ({"configs": []}, "configs.json must hold an object"),
        ({"modes": b"{"}, "modes.json is not JSON"),
        ({"a__entity": {**MONEY, "id": "x"}}, "a/entity.json: Expected `int`, got `str`"),
        ({"a__entity": [MONEY]}, "a/entity.json must hold an object"),
        ({"a__entity": b'{"schema": "\\ud800"}'}, "a/entity.json is not JSON"),
    ],
)
def test_what_was_edited_wrongly_is_reported_with_its_file(files: dict[str, Any], told: str) -> None:
    with pytest.raises(FolderError) as raised:
        contents_of(tree(**files))
    assert told in str(raised.value)
