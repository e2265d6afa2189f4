"""Histories of the simulation as sequences of the model's steps, in TLA+."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from registry.domain.log_format.records import BARRIER_KEY, NOOP_KEY, Entry
from registry.log.contract import Claim
from tests.simulation.other_writers import version_in
from tests.simulation.partition import Batch
from tests.simulation.world import Note

Event = dict[str, Any]
# The simulated coordinator's first producer id; the model counts from 1.
_FIRST = 1000


def events(notes: Sequence[Note]) -> list[Event]:
    """Return the events of a history as the model's steps. Its log counts batches, not records."""
    return _Translation(notes).events


class _Translation:
    """One pass over the notes, with what is known about later ones."""

    def __init__(self, notes: Sequence[Note]) -> None:
        self.events: list[Event] = []
        # The node that got each claim.
        self._owners = {each.about: each.who for each in notes if each.what == "claim"}
        self._claims: dict[str, Claim] = {}
        self._ends = [batch.base + batch.count for batch, _ in _landings(notes)]
        self._landed = self._high = 0
        self._stores: dict[str, int] = defaultdict(int)
        # The ids of each schema in the log so far.
        self._bound: dict[str, set[int]] = defaultdict(set)
        self._ahead: dict[Claim, list[list[Entry]]] = defaultdict(list)
        for batch, entries in _landings(notes):
            self._ahead[Claim(batch.producer, batch.epoch)].append(list(entries))
        self._answered = {each.about[0] for each in notes if each.what == "answer"}
        for note in notes:
            self._take(note)

    def _take(self, note: Note) -> None:
        match note.what:
            case "grant":
                self._grant(note)
            case "claim":
                self._claims[note.who] = note.about
            case "send":
                self._send(note)
            case "land":
                self._land(*note.about)
            case "lead" | "stop":
                self._catch_up(note.who, note)
                self._add(note.what, node=note.who)
            case "acknowledge":
                self._catch_up(note.who, note)
                if end := self._batches(note.about):
                    self._replicate(end)
                    self._add("acknowledge", node=note.who, end=end)
            case "read" if note.about in self._answered:
                self._add("read", node=note.who, reader=note.about)
                self._add("query", reader=note.about)
            case "answer":
                reader, end = note.about
                self._catch_up(note.who, note)
                self._add("answer", reader=reader, end=self._batches(end))

    def _grant(self, note: Note) -> None:
        """Take a claim from when it was granted, which may be long before its node gets the answer."""
        if owner := self._owners.get(note.about):
            self._catch_up(owner, note)
            self._add("claim", node=owner, claim=_claim(note.about))
        else:
            self._add("lost claim", claim=_claim(note.about))

    def _send(self, note: Note) -> None:
        """Take the batches of an append that arrive some time, so many of its entries as they hold."""
        claim, entries, batches = self._claims[note.who], list(note.about), []
        for batch in self._ahead[claim]:
            if entries[: len(batch)] != batch:
                break
            batches.append(batch)
            entries = entries[len(batch) :]
        if not batches:
            return
        self._catch_up(note.who, note)
        del self._ahead[claim][: len(batches)]
        if batches[0][0].key == BARRIER_KEY:
            self._add("barrier", node=note.who)
        else:
            self._add("write", node=note.who, batches=[self._new_ids(batch) for batch in batches])

    def _land(self, batch: Batch, entries: Sequence[Entry]) -> None:
        self._landed += 1
        claim = Claim(batch.producer, batch.epoch)
        if batch.sequence == 0 and entries[0].key == NOOP_KEY:
            self._add("fence", claim=_claim(Claim(claim.producer, claim.epoch - 1)))
            return
        for schema, schema_id in _versions(entries):
            self._bound[schema].add(schema_id)
        self._add("arrive", claim=_claim(claim))

    def _new_ids(self, batch: Sequence[Entry]) -> set[int]:
        """Return the ids that a batch gives to schemas that do not have them yet."""
        return {number for schema, number in _versions(batch) if number not in self._bound[schema]}

    def _catch_up(self, node: str, note: Note) -> None:
        """Let a node apply what its store held."""
        end = self._batches(note.applied[node])
        self._replicate(end)
        if end > self._stores[node]:
            self._add("apply", node=node, end=end)
            self._stores[node] = end

    def _replicate(self, end: int) -> None:
        """Let the log be replicated up to where a node has read it, or knows its own records to be."""
        if end > self._high:
            self._add("replicate", end=end)
            self._high = end

    def _batches(self, offset: int) -> int:
        """Return how many batches lie before an offset as a whole."""
        return sum(end <= offset for end in self._ends[: self._landed])

    def _add(self, what: str, **about: Any) -> None:
        self.events.append({"what": what, **about})


def _landings(notes: Iterable[Note]) -> list[tuple[Batch, Sequence[Entry]]]:
    return [each.about for each in notes if each.what == "land"]


def _versions(entries: Iterable[Entry]) -> list[tuple[str, int]]:
    found = map(version_in, entries)
    return [(each["schema"], each["id"]) for each in found if each is not None]


def _claim(claim: Claim) -> tuple[int, int]:
    return claim.producer - _FIRST + 1, claim.epoch


def module(traces: Iterable[Sequence[Event]]) -> str:
    """Return the module of TLA+ that defines these histories."""
    return f"---- MODULE Traces ----\nTraces == {_term([list(each) for each in traces])}\n====\n"


def _term(value: Any) -> str:
    """Return a value in TLA+."""
    match value:
        case dict():
            return "[" + ", ".join(f"{name} |-> {_term(each)}" for name, each in value.items()) + "]"
        case set():
            return "{" + ", ".join(map(_term, sorted(value))) + "}"
        case list() | tuple():
            return "<<" + ",\n ".join(map(_term, value)) + ">>"
        case str():
            return f'"{value}"'
    return str(value)
