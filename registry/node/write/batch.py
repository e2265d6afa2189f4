"""Deciding a batch of commands: the records to append and the replies to send. Appends nothing itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from registry.domain.admission import WriteRates
from registry.domain.commands import (
    Associate,
    ChangeAssociations,
    Forgotten,
    IdempotencyKey,
    PrimaryQuery,
    Refused,
    Register,
    Submitted,
    TagVersion,
    refusal,
)
from registry.domain.decide import Decision, decide, repeat_reply
from registry.domain.decide.ids import Ids, Span
from registry.domain.decide.own_records import check_start
from registry.domain.errors import (
    ASSOCIATION_INVALID,
    NO_PRIMARY,
    SCHEMA_TOO_LARGE,
    UNEXPECTED,
    RegistryError,
)
from registry.domain.fold.fold import apply
from registry.domain.log_format.headers import PRINCIPAL_ROOM_BYTES, pack_header, requested_by
from registry.domain.log_format.records import NOOP_KEY, Entry, Record
from registry.domain.log_format.usage import has_census
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Querying, Unanswered
from registry.domain.parsing.schema_queries import Facts
from registry.domain.pending_command import CommandRequest, PendingCommand
from registry.domain.policies import NO_POLICIES, Policies
from registry.domain.queries.scope import Defaults
from registry.domain.queries.sensitive_metadata import SENSITIVE, Cipher, encrypt_entries, plain_view
from registry.domain.rows.memory_views import RememberingView
from registry.domain.rows.view import View
from registry.log.contract import RECORD_HEADER_BYTES
from registry.node.replication.dedup import DedupCache
from registry.workers.pool import STEPS_AT_ONCE_MAX, TEXT_AT_ONCE_MAX

# Bytes of records after which a batch takes no further command; the last command may exceed it.
BATCH_BYTES_MAX = 8 << 20
# Bytes of a reply's brief in a record header; enough for the deletion of some ten thousand versions.
BRIEF_BYTES_MAX = 64 << 10
# Upper bound on the bytes that a record takes in the log in addition to its key, value and principal.
RECORD_BYTES = 96
# Commands that may register schemas, which a census of some age may decide about.
_REGISTERING = (Register, TagVersion, Associate, ChangeAssociations)
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Planned(NamedTuple):
    """A decided command; ``start`` to ``stop`` are its records among those of the batch."""

    reply: bytes
    start: int
    stop: int

    @property
    def writes(self) -> bool:
        """True if the command has records of its own."""
        return self.start < self.stop


class Doubtful(NamedTuple):
    """A command that was executed before and is not executed again; its reply is lost, or not true."""


class Postponed(NamedTuple):
    """A command that needs the answer to a schema query too slow to run in the writer.

    Once the query is answered, the command is decided again over the rows at that time.
    """

    lacking: Unanswered


Plan = Planned | Refused | Forgotten | Doubtful | Postponed


class Batch(NamedTuple):
    """The result of deciding a batch of commands."""

    entries: list[Entry]
    # One for each of the first commands; the remaining commands did not fit.
    plans: list[Plan]
    # Record headers by the index of their entry: the last record of each command with an idempotency key.
    headers: dict[int, bytes]
    # For each plan, the state of the ids before its command was decided.
    ids: list[dict[str, Span]]

    def cuts(self) -> list[int]:
        """Return the indexes in ``entries`` at which the records of another command begin."""
        return [each.start for each in self.plans if isinstance(each, Planned) and each.writes and each.start]


class Decider:
    """Decides commands in sequence, each over the rows and the records of the commands before it.

    With ``memory``, a command with an idempotency key is never decided twice: its reply is repeated, or, if
    the key is too old for the cache, the plan is :class:`Forgotten`. With ``postpones``, a command that has
    to parse or compare much is :class:`Postponed`. With ``record_principals``, records name the sender of
    their command. ``cipher`` encrypts sensitive metadata. ``policies`` returns those in force.
    """

    def __init__(
        self,
        defaults: Defaults,
        id_batch: int,
        memory: DedupCache | None = None,
        *,
        postpones: bool = False,
        record_principals: bool = True,
        cipher: Cipher | None = None,
        policies: Callable[[], Policies] = lambda: NO_POLICIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policies = policies
        self.rates = WriteRates(clock)
        self._postpones = postpones
        self._record_principals = record_principals
        self._cipher = cipher
        self._memory = memory
        self.ids = Ids(id_batch)
        self._defaults = defaults
        self._parser = Parser()

    def decide(
        self, view: View, commands: Iterable[PendingCommand], *, base: int, now: int, bytes_max: int
    ) -> Batch:
        """Decide as many of the commands as one batch takes, at least the first one.

        ``base``: an offset that no row of ``view`` reaches. ``bytes_max``: the limit on the bytes of a
        record's key and value together.
        """
        batch = Batch([], [], {}, [])
        self.rates.begin()
        size = 0
        # Over them the records of earlier commands, from the second command on.
        rows, overlay = view, RememberingView(view)
        here: dict[bytes, Planned] = {}
        # Records not yet applied to the overlay; they are applied only if another command follows.
        unseen: list[Record] = []
        for pending in commands:
            command, idempotency_key = pending.command, pending.request.idempotency_key
            known = pending.facts
            if size > BATCH_BYTES_MAX:
                break
            if unseen:
                for record in unseen:
                    overlay.commit(apply(overlay, record))
                unseen.clear()
                rows = overlay
            ids = self.ids.save()
            batch.ids.append(ids)
            try:
                before = None
                if idempotency_key is not None:
                    before = self._before(rows, pending.request, idempotency_key, here, known)
                if before is not None:
                    batch.plans.append(before)
                    continue
                check_start(command, base + len(batch.entries))
                decision = self._one(rows, pending.request, known, bytes_max)
            except RegistryError as error:
                self.ids.restore(ids)
                batch.plans.append(refusal(error))
                continue
            if isinstance(decision, Unanswered):
                self.ids.restore(ids)
                batch.plans.append(Postponed(decision))
                continue
            start = len(batch.entries)
            for entry in decision.entries:
                unseen.append(Record(base + len(batch.entries), now, *entry))
                batch.entries.append(entry)
                size += _bytes_of(entry)
            plan = Planned(decision.reply, start, len(batch.entries))
            batch.plans.append(plan)
            if idempotency_key is not None and self._memory is not None and plan.writes:
                here[idempotency_key.id] = plan
                batch.headers[plan.stop - 1] = self._command_header(
                    idempotency_key, command, decision, bytes_max
                )
        return batch

    def decide_again(self, view: View, pending: PendingCommand, bytes_max: int) -> Decision | Refused:
        """Decide a command over the rows that its records met in the log; it costs its principal no more."""
        try:
            decision = self._decision(view, pending.request, bytes_max, self._parser.run)
        except RegistryError as error:
            return refusal(error)
        assert not isinstance(decision, Unanswered)  # nothing is postponed
        return decision

    def was_done(self, pending: PendingCommand, plan: Planned | Refused) -> bool:
        """Return true if the plan of a command repeats what was executed in an earlier batch."""
        key = pending.request.idempotency_key
        if key is None or self._memory is None or (isinstance(plan, Planned) and plan.writes):
            return False
        return self._memory.find(key) is not None

    def header(self, pending: PendingCommand, again: Decision | Refused, bytes_max: int) -> bytes | None:
        """Return the record header of a command that was decided again; ``None`` if it has no key."""
        key = pending.request.idempotency_key
        if key is None or self._memory is None:
            return None
        if isinstance(again, Refused):
            return pack_header(key.id, b"", 0)
        return self._command_header(key, pending.command, again, bytes_max)

    def _before(
        self,
        view: View,
        request: CommandRequest,
        idempotency_key: IdempotencyKey,
        here: dict[bytes, Planned],
        known: Facts,
    ) -> Plan | None:
        """Return the plan of a command that was executed before, ``here`` in this batch or earlier.

        ``None`` if it was not executed. Raises ``RegistryError`` like :func:`.decide.repeat_reply`.
        """
        if self._memory is None:
            return None
        if idempotency_key.id in here:
            return here[idempotency_key.id]
        # Find before checking ``knows``: a key that is evicted between the two calls was either found, or is
        # reported as forgotten.
        done = self._memory.find(idempotency_key)
        if done is None:
            return None if self._memory.knows(idempotency_key) else Forgotten()
        if done.brief is None:
            return Doubtful()
        seen, command = plain_view(view, self._cipher), request.command
        if isinstance(command, PrimaryQuery):  # as below
            raise NO_PRIMARY()
        reply = self._attempt(repeat_reply(seen, command, done.brief, request.checked), known)
        if isinstance(reply, Unanswered):
            return Postponed(reply)
        return Doubtful() if reply is None else Planned(reply, 0, 0)

    def _attempt(self, steps: Querying[_T], known: Facts) -> _T | Unanswered:
        if not self._postpones:
            return self._parser.run(steps)
        return self._parser.attempt(steps, TEXT_AT_ONCE_MAX, STEPS_AT_ONCE_MAX, known)

    def _one(
        self, view: View, request: CommandRequest, known: Facts, bytes_max: int
    ) -> Decision | Unanswered:
        decision = self._decision(view, request, bytes_max, lambda steps: self._attempt(steps, known))
        if isinstance(decision, Decision) and decision.entries:
            self.rates.take(f"{request.kind}:{request.principal.name}", self._policies().writes_per_minute)
        return decision

    def _decision(
        self,
        view: View,
        request: CommandRequest,
        bytes_max: int,
        run: Callable[[Querying[Decision]], Decision | Unanswered],
    ) -> Decision | Unanswered:
        command, policies, defaults = request.command, self._policies(), self._defaults
        if isinstance(command, PrimaryQuery):  # never given to the writer, see Node.submit
            raise NO_PRIMARY()
        if policies is not NO_POLICIES:
            defaults = replace(defaults, policies=policies, principal=request.principal, kind=request.kind)
        if request.checked is not None:
            defaults = replace(defaults, checked=request.checked)
        if request.condition is not None:
            defaults = replace(defaults, condition=request.condition)
        if defaults.deletion_guard != "off" or (isinstance(command, _REGISTERING) and has_census(view)):
            defaults = replace(defaults, now=time.time_ns() // 1_000_000)
        try:
            seen = plain_view(view, self._cipher)
            steps = decide(seen, command, self.ids, defaults, self._parser.memory)
            decision = run(steps)
            if isinstance(decision, Unanswered):
                return decision
            entries = encrypt_entries(decision.entries, view, self._cipher)
            if self._record_principals:
                entries = requested_by(request.principal.name, entries, bytes_max)
            decision = decision._replace(entries=entries)
        except RegistryError:
            raise
        except Exception:
            # A failure in one command must not fail the others of its batch.
            _log.exception("unexpected error while deciding %s", type(command).__name__)
            raise UNEXPECTED() from None
        for entry in decision.entries:
            if len(entry.key) + len(entry.value or b"") > bytes_max:
                raise SCHEMA_TOO_LARGE()
        if isinstance(command, Associate | ChangeAssociations):
            _check_whole(decision, bytes_max)
        return decision

    def _command_header(
        self, idempotency_key: IdempotencyKey, command: Submitted, decision: Decision, bytes_max: int
    ) -> bytes:
        brief = decision.reply if decision.brief is None else decision.brief
        last = decision.entries[-1] if decision.entries else Entry(NOOP_KEY, None)
        taken = len(last.key) + len(last.value or b"") + (PRINCIPAL_ROOM_BYTES if last.principal else 0)
        room = bytes_max - taken + RECORD_HEADER_BYTES
        most = min(room, _brief_bytes_max(bytes_max) + RECORD_HEADER_BYTES)
        if self._cipher is not None and isinstance(command, Associate | ChangeAssociations):
            # The reply may show sensitive metadata in clear text, and the record header is kept in the log.
            most = 0 if SENSITIVE in brief else most
        return pack_header(idempotency_key.id, brief, most)


def _check_whole(decision: Decision, bytes_max: int) -> None:
    """Refuse associations whose records do not fit one append, because they must be written all or none."""
    size = sum(RECORD_BYTES + _bytes_of(each) for each in decision.entries)
    most = bytes_max - _brief_bytes_max(bytes_max)
    if len(decision.entries) > 1 and size > most:
        detail = f"their records exceed the {most} bytes that can be written at once"
        raise ASSOCIATION_INVALID("associations", detail)


def _brief_bytes_max(bytes_max: int) -> int:
    return min(BRIEF_BYTES_MAX, bytes_max // 8)


def _bytes_of(entry: Entry) -> int:
    key, value, principal = entry
    return len(key) + len(value or b"") + len(principal)
