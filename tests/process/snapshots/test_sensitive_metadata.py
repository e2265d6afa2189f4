"""Sensitive metadata in a snapshot: encrypted in every file, in clear text for processes with the secret."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from registry.domain import reseed
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Entry, Record, schema_key
from registry.domain.log_format.values import schema_value
from registry.domain.model import Subject, metadata
from registry.domain.queries import entities, versions
from registry.domain.queries.sensitive_metadata import PlainView, encrypt_entries
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import scan
from registry.encoder.keyset import Keyset, KeysetFile
from snapshots.format.location import Location
from tests.support.sample_snapshots import build, rows_in

SECRET = "a secret of the test"
SUBJECT = Subject.parse("s")
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda name: name != "__enc__")
# They begin with words that no file contains by chance.
values = st.text(st.characters(codec="utf-8"), max_size=30).map(lambda text: f"told in clear: {text}")


@settings(max_examples=12)
@given(st.dictionaries(names, values, min_size=1, max_size=4), st.booleans())
def test_what_is_encrypted_reads_as_it_was_after_a_snapshot_and_a_restore(
    properties: dict[str, str], deleted: bool
) -> None:
    meta = metadata({"properties": properties, "sensitive": list(properties)})
    keyset = Keyset.new()
    value = schema_value(SUBJECT, 1, 7, '"string"', metadata=meta, deleted=deleted)
    (entry,) = encrypt_entries([Entry(schema_key(SUBJECT, 1), value)], DictView(), keyset)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        KeysetFile(data).write(keyset.dumps(SECRET))
        manifest = build(data, [Record(0, 1, entry.key, entry.value)])
        location = Location.parse(data / "snapshots")
        loaded = DictView(rows_in(location, manifest))
        kept = [each.read_bytes() for each in data.rglob("*") if each.is_file()]
    said = b"".join([*kept, *(key + row for key, row in scan(loaded, b""))])
    assert not [each for each in properties.values() if each.encode() in said]
    carried = Keyset.loads(manifest.keyset.encode(), SECRET)
    restored = DictView()
    for number, each in enumerate(reseed.entries(loaded)):
        restored.commit(apply(restored, Record(number, 2, each.key, each.value)))
    for view in (loaded, restored):
        found = versions.get(PlainView(view, carried), SUBJECT, 1)
        assert found is not None
        assert (entities.metadata(found), found.deleted) == (meta, deleted)
