"""Laws that the history of any schema registry must obey, whatever happened to its servers.

They are about intervals: an operation took effect at some moment between its call and its end, and one
without an answer perhaps later, perhaps never. So a law is broken only if no order of these moments explains
the answers. Subjects of a history are its own: nobody else writes them. Deletions are soft.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .history import BY_ID, DELETE_SUBJECT, DELETES, FINAL, LIST, LOOKS, PING, REGISTER, Operation

NAMES = (
    "lost-write",
    "two-ids",
    "two-schemas",
    "stale-id",
    "stale-list",
    "stale-latest",
    "version-gap",
    "falling-ids",
    "came-back",
    "unavailable",
    "refused",
)


class Violation(NamedTuple):
    """A broken law: its name, a sentence, and the few operations that prove it, in order of time."""

    law: str
    sentence: str
    operations: tuple[Operation, ...]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        operations = [each.as_json() for each in self.operations]
        return {"law": self.law, "sentence": self.sentence, "operations": operations}


def find_violations(operations: Sequence[Operation], staleness_s: float = 0.0) -> list[Violation]:
    """Return every broken law, proofs of few operations first.

    ``staleness_s``: how long reads may miss what was acknowledged, without breaking a law.
    """
    evidence = _Evidence(operations, staleness_s)
    found = [each for law in _LAWS for each in law(evidence)]
    return sorted(found, key=lambda each: (len(each.operations), each.operations[-1].ended))


class _Evidence:
    """A history, arranged for the laws."""

    def __init__(self, operations: Sequence[Operation], staleness_s: float) -> None:
        self.operations = sorted(operations, key=lambda each: each.ended)
        self.staleness_s = staleness_s
        self.acknowledged = [each for each in self.operations if each.op == REGISTER and each.is_done]
        self.subjects: dict[str, list[Operation]] = defaultdict(list)
        # The versions that a schema's id was seen as, in a subject.
        self._seen_as: dict[tuple[str, int], dict[int, Operation]] = defaultdict(dict)
        for each in self.operations:
            if each.subject:
                self.subjects[each.subject].append(each)
            if each.id is not None and each.version is not None:
                self._seen_as[each.subject, each.id].setdefault(each.version, each)

    def version_of(self, write: Operation) -> tuple[int, tuple[Operation, ...]] | None:
        """Return the version that a registration made or found, and the operations that say so.

        Not every registry answers with it. It is not known if the schema was more than one version.
        """
        if write.version is not None:
            return write.version, (write,)
        seen = self._seen_as.get((write.subject, write.id or 0), {})
        if len(seen) != 1:
            return None
        version, where = next(iter(seen.items()))
        return version, (write, where)

    def must_know(self, read: Operation, write: Operation) -> bool:
        """Return true if a read must show a write: called late enough after it, and not declared stale."""
        return write.is_done and not read.stale and write.ended + self.staleness_s < read.began


def _two_ids(evidence: _Evidence) -> Iterator[Violation]:
    first: dict[str, Operation] = {}
    for write in evidence.acknowledged:
        other = first.setdefault(write.schema, write)
        if other.id != write.id:
            yield _violation("two-ids", f"one schema got the ids {other.id} and {write.id}", other, write)


def _two_schemas(evidence: _Evidence) -> Iterator[Violation]:
    first: dict[int, tuple[str, Operation]] = {}
    for each in evidence.operations:
        number = each.asked if each.op == BY_ID else each.id
        text = each.shown or each.schema
        if not each.is_done or number is None or not text:
            continue
        known, other = first.setdefault(number, (text, each))
        if known != text:
            yield _violation("two-schemas", f"id {number} stands for two schemas", other, each)


def _missing_ids(evidence: _Evidence) -> Iterator[Violation]:
    first: dict[int, Operation] = {}
    for write in evidence.acknowledged:
        if write.id is not None:
            first.setdefault(write.id, write)
    for read in evidence.operations:
        if read.op != BY_ID or not read.is_missing:
            continue
        written = first.get(read.asked or 0)
        if written is not None and evidence.must_know(read, written):
            text = f"{read.address} did not know id {read.asked} after it was acknowledged"
            yield _violation(_law(read, "stale-id"), text, written, read)


def _missing_versions(evidence: _Evidence) -> Iterator[Violation]:
    for operations in evidence.subjects.values():
        writes = [each for each in operations if each.op == REGISTER and each.is_done]
        deletes = [each for each in operations if each.op in DELETES]
        for read in operations:
            if read.op in LOOKS and (read.is_done or read.is_missing):
                yield from _missing_in(evidence, read, writes, deletes)


def _missing_in(
    evidence: _Evidence, read: Operation, writes: Iterable[Operation], deletes: Iterable[Operation]
) -> Iterator[Violation]:
    for write in writes:
        known = evidence.version_of(write) if evidence.must_know(read, write) else None
        if known is None:
            continue
        version, proof = known
        if _shows(read, version) or any(_may_delete(each, version, write, read) for each in deletes):
            continue
        shows = f"showed {list(read.shown_versions)}" if read.is_done else f"answered {read.status}"
        text = f"{read.address} {shows} after version {version} of {read.subject} was acknowledged"
        yield _violation(_law(read, f"stale-{read.op}"), text, *proof, read)
        return  # one proof for a read


def _shows(read: Operation, version: int) -> bool:
    shown = read.shown_versions
    return version in shown if read.op == LIST else max(shown, default=0) >= version


def _may_delete(delete: Operation, version: int, write: Operation, read: Operation) -> bool:
    """Return true if a deletion can explain that a read does not show what was registered."""
    if delete.began >= read.ended or not (delete.is_done or delete.is_uncertain):
        return False
    named = delete.op == DELETE_SUBJECT or delete.asked == version
    if delete.is_uncertain or not delete.shown_versions:
        return named
    return delete.ended >= write.began and version in delete.shown_versions


def _shown_again(evidence: _Evidence) -> Iterator[Violation]:
    for operations in evidence.subjects.values():
        reads = [each for each in operations if each.op in LOOKS and (each.is_done or each.is_missing)]
        for delete in operations:
            if delete.op in DELETES and delete.is_done:
                yield from _deleted_but_shown(evidence, delete, reads)


def _deleted_but_shown(
    evidence: _Evidence, delete: Operation, reads: Sequence[Operation]
) -> Iterator[Violation]:
    # A version's number is never used again, so once deleted it is never shown.
    for read in reads:
        shown = sorted({*delete.shown_versions} & {*read.shown_versions})
        if not shown or not evidence.must_know(read, delete):
            continue
        gone = [each for each in reads if _saw_it_gone(each, delete, read, shown[0])]
        about = f"version {shown[0]} of {read.subject}"
        if gone or read.client == FINAL:
            text = f"{read.address} showed {about} again after it was deleted"
            yield _violation("came-back", text, delete, *gone[:1], read)
        else:
            text = f"{read.address} showed {about} after its deletion was acknowledged"
            yield _violation(f"stale-{read.op}", text, delete, read)


def _saw_it_gone(earlier: Operation, delete: Operation, read: Operation, version: int) -> bool:
    """Return true if the same address did not show a deleted version before."""
    between = delete.ended <= earlier.began and earlier.ended <= read.began
    # That the latest version is another one says nothing.
    gone = version not in earlier.shown_versions and (earlier.op == LIST or earlier.is_missing)
    return earlier.address == read.address and between and gone


def _gaps(evidence: _Evidence) -> Iterator[Violation]:
    for subject, operations in evidence.subjects.items():
        final = next((each for each in operations if each.client == FINAL and each.op == LIST), None)
        # What an unanswered deletion removed was perhaps never shown.
        if final is None or any(each.op in DELETES and each.is_uncertain for each in operations):
            continue
        shown = {number: each for each in operations for number in each.shown_versions}
        missing = next((each for each in range(1, max(shown, default=0)) if each not in shown), None)
        if missing is not None:
            newest = shown[max(shown)]
            text = f"{subject} has version {max(shown)} and never had version {missing}"
            yield _violation("version-gap", text, *{newest.began: newest, final.began: final}.values())


def _falling_ids(evidence: _Evidence) -> Iterator[Violation]:
    begun: dict[str, float] = {}
    for each in evidence.operations:
        if each.op == REGISTER and each.sent:
            begun[each.schema] = min(each.began, begun.get(each.schema, each.began))
    first: dict[str, Operation] = {}
    for write in evidence.acknowledged:
        first.setdefault(write.schema, write)
    earlier = list(first.values())  # in the order in which they ended
    largest: Operation | None = None
    turn = 0
    for write in sorted(earlier, key=lambda each: begun[each.schema]):
        while turn < len(earlier) and earlier[turn].ended < begun[write.schema]:
            ended = earlier[turn]
            largest = ended if largest is None or (ended.id or 0) > (largest.id or 0) else largest
            turn += 1
        if largest is not None and (write.id or 0) < (largest.id or 0):
            text = f"a new schema got id {write.id} after another had got {largest.id}"
            yield _violation("falling-ids", text, largest, write)


def _unavailable(evidence: _Evidence) -> Iterator[Violation]:
    tasks: dict[int, list[Operation]] = defaultdict(list)
    for each in evidence.operations:
        tasks[each.task].append(each)
    for attempts in tasks.values():
        if all(each.is_failed for each in attempts):
            first, last = attempts[0], attempts[-1]
            waited = f"within {last.ended - first.began:.1f} s"
            text = f"no address answered {last.op} {waited}"
            if last.op == PING:
                text = f"{last.address} did not answer {waited} after the load"
            yield _violation("unavailable", text, *{first.began: first, last.began: last}.values())


def _refusals(evidence: _Evidence) -> Iterator[Violation]:
    for each in evidence.operations:
        if not (each.is_done or each.is_failed or (each.is_missing and each.op != REGISTER)):
            yield _violation("refused", f"{each.address} refused {each.op}: {each.status}", each)


_LAWS: tuple[Callable[[_Evidence], Iterator[Violation]], ...] = (
    _two_ids,
    _two_schemas,
    _missing_ids,
    _missing_versions,
    _shown_again,
    _gaps,
    _falling_ids,
    _unavailable,
    _refusals,
)


def _law(read: Operation, name: str) -> str:
    """Return the law that a read breaks: what is missing after everything has settled is lost."""
    return "lost-write" if read.client == FINAL else name


def _violation(law: str, sentence: str, *operations: Operation) -> Violation:
    return Violation(law, sentence, tuple(sorted(operations, key=lambda each: (each.began, each.ended))))
