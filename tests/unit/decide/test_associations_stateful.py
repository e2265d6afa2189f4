"""Random requests about associations, compared with a plain model of Confluent's rules."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from registry.domain.commands import (
    Associate,
    AssociationRequest,
    ChangeAssociations,
    Command,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Dissociate,
    PutMode,
    Register,
    ResourceRequest,
)
from registry.domain.decide.ids import Ids
from registry.domain.errors import RegistryError
from registry.domain.model import Reference, Subject
from registry.domain.queries import associations, versions
from registry.domain.queries.associations import ASSOCIATION_RULES, RELEASED
from registry.domain.queries.scope import Defaults
from registry.domain.rows import layout
from registry.domain.rows.view import scan
from tests.unit.small_registry import SmallRegistry, record

NAMES, IDS, TYPES = ("n", "m"), ("r1", "r2"), ("key", "value")
SUBJECTS = ("s", "t", ":.ns:n-value", ":.ns:m-key")
SCHEMAS = (record("R", "a"), record("R", "a", "b?"), record("Q", "a"), "broken")

sometimes = st.sampled_from((None, None, True, False))
lifecycles = st.sampled_from((None, None, "WEAK", "STRONG"))
schemas = st.none() | st.sampled_from(SCHEMAS).map(lambda text: Register("", text))
guids = st.uuids().map(str)
plain = st.builds(AssociationRequest, st.sampled_from(TYPES), st.sampled_from(SUBJECTS), guid=guids)
owning = st.builds(AssociationRequest, st.sampled_from(TYPES), schema=schemas, guid=guids)
odd = st.builds(
    AssociationRequest,
    st.sampled_from(TYPES),
    st.none() | st.sampled_from(SUBJECTS),
    lifecycles,
    sometimes,
    schemas,
    guids,
)
wanted = st.one_of(plain, owning, odd)


def _resources(each: st.SearchStrategy[AssociationRequest]) -> st.SearchStrategy[ResourceRequest]:
    found = st.lists(each, min_size=1, max_size=2)
    return st.builds(
        ResourceRequest, st.sampled_from(NAMES), st.just("ns"), st.sampled_from(IDS), st.none(), found
    )


def _operation(each: AssociationRequest, op: str, cascade: bool) -> AssociationRequest:
    if op == "DELETE":
        return AssociationRequest(each.association_type, op=op, cascade=cascade)
    return AssociationRequest(
        each.association_type, each.subject, each.lifecycle, each.frozen, each.schema, each.guid, op
    )


operations = st.builds(_operation, wanted, st.sampled_from(("CREATE", "UPSERT", "DELETE")), st.booleans())
batches = st.lists(_resources(operations), min_size=1, max_size=3)
types = st.lists(st.sampled_from(TYPES), max_size=2)


class Known(NamedTuple):
    """An association as the model knows it, under the key of its record."""

    resource_id: str
    strong: bool
    frozen: bool


# Name of the resource, type, subject.
Key = tuple[str, str, str]


class Associations(RuleBasedStateMachine):
    release = ASSOCIATION_RULES["8.3"]

    @initialize()
    def start(self) -> None:
        self.registry = SmallRegistry(Defaults(association_rules=self.release))
        self.model: dict[Key, Known] = {}
        for subject in ("s", "t"):
            self.registry.register(subject, SCHEMAS[0])

    def submit(self, command: Command) -> Any:
        """Return the reply; ``None`` if the command is refused, which then changes nothing."""
        before, ids = dict(self.registry.view.rows()), self.registry.ids.save()
        try:
            return self.registry.submit(command)
        except RegistryError:
            assert (dict(self.registry.view.rows()), self.registry.ids.save()) == (before, ids)
            return None

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(TYPES), guid=guids)
    def owned(self, name: str, kind: str, guid: str) -> None:
        wanted = AssociationRequest(kind, schema=Register("", SCHEMAS[0]), guid=guid)
        self.associate(ResourceRequest(name, "ns", f"r-{name}", None, [wanted]), create=True)

    @rule(subject=st.sampled_from(SUBJECTS), resource_id=st.sampled_from(IDS), guid=guids)
    def shared(self, subject: str, resource_id: str, guid: str) -> None:
        wanted = AssociationRequest("value", subject, guid=guid)
        self.associate(ResourceRequest("o", "ns", resource_id, None, [wanted]), create=True)

    @rule(request=_resources(wanted), create=st.booleans())
    def associate(self, request: ResourceRequest, create: bool) -> None:
        reply = self.submit(Associate(request, ".", create))
        if reply is None:
            return
        self.learn(request, reply)
        written = {each["subject"] for each in reply.get("associations", ())}
        again = self.submit(Associate(request, ".", create))
        if again is None:
            assert len(written) < len(reply["associations"]), "what was done may be asked again"
            return
        assert not any(b'"ASSOC"' in each.key for each in self.registry.last)
        assert {each["subject"] for each in again.get("associations", ())} <= written

    def learn(self, request: ResourceRequest, reply: dict[str, Any]) -> None:
        """Update the model from a reply."""
        assert request.name is not None
        assert request.resource_id is not None
        for each in reply.get("associations", ()):
            strong = each["lifecycle"] == "STRONG"
            frozen = each.get("frozen", strong)
            assert ("frozen" in each) != self.release.omits_implied_frozen
            assert strong or not frozen
            assert frozen == strong or not self.release.strong_is_frozen
            kind, subject = each["associationType"], each["subject"]
            key = self.of_resource(request.resource_id, kind)
            if key is None:
                key = (request.name, kind, subject)
                assert not frozen or subject == f":.ns:{request.name}-{kind}"
            self.model[key] = Known(request.resource_id, strong, frozen)

    def of_resource(self, resource_id: str, kind: str) -> Key | None:
        found = [
            key for key, known in self.model.items() if (known.resource_id, key[1]) == (resource_id, kind)
        ]
        assert len(found) <= 1
        return found[0] if found else None

    @rule(resource_id=st.sampled_from(IDS), kinds=types, cascade=st.booleans())
    def dissociate(self, resource_id: str, kinds: list[str], cascade: bool) -> None:
        chosen = [
            key
            for key, known in self.model.items()
            if known.resource_id == resource_id and (not kinds or key[1] in kinds)
        ]
        before = len(self.registry.log)
        self.submit(Dissociate(resource_id, "topic", kinds, cascade))
        if len(self.registry.log) == before:
            assert not chosen or any(self.protected(key, chosen, cascade) for key in chosen)
            return
        assert chosen
        owned = {key[2] for key in chosen if self.model[key].strong and cascade}
        for key in chosen:
            del self.model[key]
            assert versions.exists(self.registry.view, Subject.parse(key[2])) != (key[2] in owned)

    def protected(self, key: Key, chosen: list[Key], cascade: bool) -> bool:
        read_only = self.registry.view.get(layout.scope_key(layout.MODE, Subject.parse(key[2]))) is not None
        shared = any(other[2] == key[2] for other in self.model if other not in chosen)
        return read_only or (shared if cascade else self.model[key].frozen)

    @rule(requests=batches)
    def batch(self, requests: list[ResourceRequest]) -> None:
        dry = self.submit(ChangeAssociations(requests, ".", dry_run=True))
        assert self.registry.last == []
        reply = self.submit(ChangeAssociations(requests, "."))
        assert len(dry["results"]) == len(reply["results"]) == len(requests)
        first = [next(iter(each["results"][0])) for each in (dry, reply)]
        assert len(requests[0].associations) > 1 or first[0] == first[1]
        self.take_over()

    def take_over(self) -> None:
        """Copy the stored state: operations of a batch are modeled by single requests."""
        self.model = {
            (each.resource_name or "", each.association_type or "", each.subject): Known(
                each.resource_id or "", each.strong, each.is_frozen
            )
            for each in self.stored()
        }

    @rule(subject=st.sampled_from(SUBJECTS), version=st.none() | st.just(-1), permanent=st.booleans())
    def deletion(self, subject: str, version: int | None, permanent: bool) -> None:
        if version is None:
            command: Command = DeleteSubject(subject, permanent)
        else:
            command = DeleteVersion(subject, version, permanent)
        reply = self.submit(command)
        if version is None and any(key[2] == subject for key in self.model):
            assert reply is None

    @rule(subject=st.sampled_from(SUBJECTS[:2]), text=st.sampled_from(SCHEMAS[:2]))
    def registration(self, subject: str, text: str) -> None:
        self.submit(Register(subject, text))

    @rule(subject=st.sampled_from(SUBJECTS))
    def reference(self, subject: str) -> None:
        strong = any(known.strong for key, known in self.model.items() if key[2] == subject)
        strong = strong and self.release.strong_excludes_references
        text = '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}'
        reply = self.submit(Register("u", text, references=[Reference("R", subject, 1)], force=True))
        assert not (strong and self.registry.last and reply is not None)
        self.submit(DeleteSubject("u"))
        self.submit(DeleteSubject("u", permanent=True))

    @rule(subject=st.sampled_from(SUBJECTS), request=_resources(wanted))
    def read_only(self, subject: str, request: ResourceRequest) -> None:
        self.submit(PutMode(subject, "READONLY", "READONLY"))
        reply = self.submit(Associate(request, ".", create=True))
        assert subject not in {each["subject"] for each in (reply or {}).get("associations", ())}
        self.submit(DeleteMode(subject))
        if reply is not None:
            self.learn(request, reply)

    @rule()
    def another_primary(self) -> None:
        self.registry.ids = Ids(batch=3, batch_max=6)

    def stored(self) -> list[associations.Association]:
        found = associations.list_named(self.registry.view, "-", "-", associations.Filter())
        return [each for each in found if each is not None]

    @invariant()
    def the_model_holds(self) -> None:
        if not hasattr(self, "registry"):
            return
        stored = {
            (each.resource_name, each.association_type, each.subject): (
                each.resource_id,
                each.strong,
                each.is_frozen,
            )
            for each in self.stored()
        }
        assert stored == self.model

    @invariant()
    def the_rules_hold(self) -> None:
        if not hasattr(self, "registry"):
            return
        found = self.stored()
        for each in found:
            subject = Subject.parse(each.subject)
            assert versions.exists(self.registry.view, subject), "an associated subject has an active version"
            beside = associations.of_subject(self.registry.view, subject)
            # Only the key's and the value's of one resource may share the subject of a strong one.
            assert len({other.resource_id for other in beside}) == 1 or not any(o.strong for o in beside)
            assert each.strong or not each.is_frozen
            siblings = associations.of_resource_id(self.registry.view, each.resource_id or "")
            assert each.is_frozen == each.strong or not self.release.strong_is_frozen
            assert len({other.strong for other in siblings}) == 1 or not self.release.one_lifecycle
            assert len({other.association_type for other in siblings}) == len(siblings)
        indexed = [
            list(scan(self.registry.view, table)) for table in (layout.RESOURCE_NAME, layout.RESOURCE_ID)
        ]
        assert [len(each) for each in indexed] == [len(found)] * 2


class StricterAssociations(Associations):
    release = RELEASED


TestAssociations = Associations.TestCase
TestAssociations.settings = settings(max_examples=40, stateful_step_count=30)
TestStricterAssociations = StricterAssociations.TestCase
TestStricterAssociations.settings = settings(max_examples=40, stateful_step_count=30)
