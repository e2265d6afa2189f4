"""Random commands with changes of primary and compactions between them.

A plain model predicts the numbers of versions; ids grow, are never reused, and never change content.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from registry.domain.commands import (
    Command,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    PutConfig,
    PutMode,
    Register,
)
from registry.domain.decide.ids import Ids
from registry.domain.errors import RegistryError
from registry.domain.model import Metadata, Reference, Subject
from registry.domain.queries.versions import subject_at
from registry.domain.rows.layout import VERSION
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import scan
from tests.unit.small_registry import SmallRegistry, record

SUBJECTS = ("a", "b", ":.ctx:a")
SCOPES = (None, ":.ctx:", "a", ":.ctx:a", ":.__GLOBAL:")
SCHEMAS = (
    '"string"',
    record("R", "a"),
    record("R", "a", "b?"),
    record("R", "a", "b"),
    record("R", "a", y=1, x=2),
    record("R", "a", x=2, y=1),
    '{"type":"record","name":"U","fields":[{"name":"x","type":"R"}]}',
    "",
    "broken",
)
METADATA = (None, None, Metadata(), Metadata(properties={"k": "v"}))

subjects, scopes = st.sampled_from(SUBJECTS), st.sampled_from(SCOPES)
references = st.lists(st.builds(Reference, st.just("R"), subjects, st.sampled_from((-1, 1, 2))), max_size=1)
registrations = st.builds(
    Register,
    subjects,
    st.sampled_from(SCHEMAS),
    references=references,
    metadata=st.sampled_from(METADATA),
    version=st.sampled_from((0, 0, 0, -1, 1, 2, 3)),
    schema_id=st.sampled_from((-1, -1, -1, 0, 1, 2, 5, 30)),
    normalize=st.booleans(),
    force=st.booleans(),
)
patches: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "compatibilityLevel": st.sampled_from(("NONE", "BACKWARD", "FULL_TRANSITIVE", None)),
        "normalize": st.sampled_from((True, False, None)),
        "defaultMetadata": st.sampled_from(({"properties": {"d": "1"}}, None)),
    },
)
modes = st.sampled_from(("READWRITE", "READONLY", "IMPORT", "FORWARD", None))
others: st.SearchStrategy[Command] = st.one_of(
    st.builds(DeleteVersion, subjects, st.sampled_from((-1, 1, 2, 3)), st.booleans()),
    st.builds(DeleteSubject, subjects, st.booleans()),
    st.builds(PutConfig, scopes, patches),
    st.builds(DeleteConfig, scopes),
    st.builds(lambda scope, mode, force: PutMode(scope, mode, mode, force), scopes, modes, st.booleans()),
    st.builds(DeleteMode, scopes, st.booleans()),
    st.builds(DeleteContext, st.sampled_from((".ctx", ".none"))),
)


class Commands(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.registry = SmallRegistry()
        # All contents that each id was ever assigned to.
        self.content: dict[tuple[str, int], bytes] = {}
        # The highest id ever assigned or imported, in each context.
        self.highest: dict[str, int] = {}
        self.imported: set[tuple[str, int]] = set()

        for scope in (None, ":.ctx:"):
            self.registry.level(scope, "NONE")

    @rule(subject=subjects, schema=st.sampled_from(SCHEMAS[:6]), metadata=st.sampled_from(METADATA))
    def plain_registration(self, subject: str, schema: str, metadata: Metadata | None) -> None:
        self.check_registration(Register(subject, schema, metadata=metadata))

    @rule(
        subject=subjects,
        schema=st.sampled_from(SCHEMAS[:6]),
        version=st.integers(0, 4),
        schema_id=st.sampled_from((0, 1, 2, 3, 5, 30, 31, 99)),
    )
    def imported_version(self, subject: str, schema: str, version: int, schema_id: int) -> None:
        self.submit(PutMode(subject, "IMPORT", "IMPORT", force=True))
        self.check_registration(Register(subject, schema, version=version, schema_id=schema_id))
        self.submit(DeleteMode(subject))

    @rule(subject=subjects, version=st.sampled_from((-1, None, 1)), permanent=st.booleans())
    def deletion(self, subject: str, version: int | None, permanent: bool) -> None:
        for for_good in (False, True)[: 1 + permanent]:
            newest = max(self.versions(Subject.parse(subject)), default=1)
            number = newest if version == -1 else version
            if number is None:
                self.submit(DeleteSubject(subject, for_good))
            else:
                self.submit(DeleteVersion(subject, number, for_good))

    @rule(command=registrations)
    def odd_registration(self, command: Register) -> None:
        self.check_registration(command)

    def check_registration(self, command: Register) -> None:
        subject = Subject.parse(command.subject)
        before = self.versions(subject)
        known = {schema_id for context, schema_id in self.content if context == subject.context}
        reply = self.submit(command)
        if reply is None:
            return
        schema_id, version, wrote = reply["id"], reply["version"], bool(self.registry.last)
        after = self.versions(subject)
        if not wrote:
            assert after == before
            assert before[version].schema_id == schema_id
            assert not before[version].deleted
            return
        row = after[version]
        assert (row.schema_id, row.deleted) == (schema_id, False)
        if command.schema_id < 0:
            assert version == max(before, default=0) + 1
            if schema_id not in known:
                assert schema_id > self.highest.get(subject.context, 0)
        elif command.version > 0:
            assert version == command.version
        gone = before.keys() - after.keys()
        assert all(before[each].deleted and before[each].schema_id == schema_id for each in gone)

    @rule(command=others)
    def other_command(self, command: Command) -> None:
        self.submit(command)

    @rule()
    def another_primary(self) -> None:
        self.registry.ids = Ids(batch=3, batch_max=6)

    @rule()
    def compaction(self) -> None:
        """Keep only the last record of each key and no tombstones; a node folds the rest."""
        kept = {each.key: each for each in self.registry.log}
        fresh = SmallRegistry()
        for each in sorted(kept.values(), key=lambda each: each.offset):
            if each.value is not None and each.key is not None:
                fresh.append(each.key, each.value)
        assert self.readable(fresh) == self.readable(self.registry)
        self.registry = fresh

    @invariant()
    def an_id_keeps_its_content(self) -> None:
        now: dict[tuple[str, int], bytes] = {}
        for key, value in scan(self.registry.view, VERSION):
            row, subject = VersionRow.unpack(value), subject_at(key, value)
            assert now.setdefault((subject.context, row.schema_id), row.md5) == row.md5
            bound = self.content.setdefault((subject.context, row.schema_id), row.md5)
            if (
                bound != row.md5
            ):  # Only an import may assign an id again, after all versions that had it are gone.
                assert (subject.context, row.schema_id) in self.imported
                self.content[subject.context, row.schema_id] = row.md5
            self.highest[subject.context] = max(self.highest.get(subject.context, 0), row.schema_id)

    def submit(self, command: Command) -> Any:
        try:
            reply = self.registry.submit(command)
        except RegistryError:
            self.registry.refusal(command)
            return None
        if isinstance(command, Register) and command.schema_id >= 0 and self.registry.last:
            self.imported.add((Subject.parse(command.subject).context, reply["id"]))
        return reply

    def versions(self, subject: Subject) -> dict[int, VersionRow]:
        found = (VersionRow.unpack(value) for _, value in scan(self.registry.view, VERSION))
        rows = [row for row in found if row.head.startswith(b'{"subject":"%s",' % subject.qualified.encode())]
        return {int(row.head.rpartition(b":")[2]): row for row in rows}

    def readable(self, registry: SmallRegistry) -> list[tuple[bytes, bytes]]:
        """Return the versions as readers see them, without offsets."""
        found = [VersionRow.unpack(value) for _, value in scan(registry.view, VERSION)]
        return sorted((row.head, row.schema + row.metadata + str(row.deleted).encode()) for row in found)


Commands.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestRandomCommands = Commands.TestCase
