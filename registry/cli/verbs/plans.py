"""Plans for a registry as verbs make, print and carry them out, and what they are about."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import click

from registry.cli.client.client import RegistryClient
from registry.cli.client.resources import ErrorAnswer, RegistryError
from registry.cli.folder import report
from registry.cli.folder.contents import Contents, FolderError
from registry.cli.folder.plan import plan, subjects_to_prune
from registry.cli.folder.steps import Plan
from registry.cli.output import DRIFT, FAILED, OK, REFUSED, Failure, note, print_json, print_lines, progress
from registry.cli.promotion.performing import ImportJournal, JournalError, PlanOutdated, open_journal, perform
from registry.cli.promotion.reading import RegistryReader
from registry.domain.log_format.subject_values import USED_LEVELS
from registry.domain.model import ALL_CONTEXTS, Subject
from registry.domain.subject_patterns import Pattern

_LEVEL: Final = "compatibilityLevel"


def present_for(
    reader: RegistryReader,
    wanted: Contents,
    owned: Sequence[Pattern] = (),
    *,
    about: Sequence[Pattern] = (),
    keep_ids: bool = False,
) -> Contents:
    """Return the part of a registry that a plan for ``wanted`` depends on.

    ``owned``: patterns of subjects that it may delete. ``about``: those that cover most of ``wanted``.
    ``keep_ids``: with the versions that have the ids.
    """
    reader.subjects(about, deleted=True)
    for pattern in dict.fromkeys((*about, *owned)):
        reader.read_ahead(pattern, deleted=True)
    subjects = {*wanted.versions, *wanted.configs, *wanted.modes, *reader.subjects(owned)}
    subjects = {each for each in subjects if each and not Subject.parse(each).is_context}
    for user, version in wanted:
        subjects |= {wanted.target(each, user)[0] for each in version.references}
    places = [place for each in sorted(subjects) for place in reader.all_places(each)]
    for subject in subjects_to_prune(wanted, reader.subjects(owned), owned):
        # Also what no pattern covers may forbid a deletion.
        places += [place for place in reader.referrers(subject) if place not in places]
    if keep_ids:
        places += _holders(reader, wanted, set(places))
    found = reader.contents(places)
    configured = reader.read_scopes(_scopes(subjects, wanted))
    asked = any(map(_asks_census, (*configured.configs.values(), *wanted.configs.values())))
    usage = reader.usage([each for each in wanted.versions if each in found.versions]) if asked else None
    return Contents(found.versions, configured.configs, configured.modes, usage)


def _asks_census(config: Mapping[str, Any]) -> bool:
    """Return true if a config has a level for versions in use."""
    return bool(config.get("compatibilityUsed")) or str(config.get(_LEVEL, "")).upper() in USED_LEVELS


def _holders(
    reader: RegistryReader, wanted: Contents, known: Collection[tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    ids = {(Subject.parse(subject).context, version.schema_id) for subject, version in wanted}
    held = {
        (Subject.parse(place[0]).context, version.schema_id)
        for place in known
        if (version := reader.version(*place)) is not None
    }
    for context, schema_id in sorted(ids - held):
        yield from reader.holders(context, schema_id)


def _scopes(subjects: Iterable[str], wanted: Contents) -> list[str]:
    """Return the scopes that decide over subjects: their own, their contexts', the top level, and all."""
    named = {*subjects, *wanted.configs, *wanted.modes}
    contexts = {Subject(Subject.parse(each).context, "").qualified for each in named}
    everywhere = Subject(ALL_CONTEXTS, "").qualified
    return sorted(named | contexts | {"", everywhere})


def wanted_of(
    reader: RegistryReader, patterns: Sequence[Pattern], *, latest: bool, configs: bool, deleted: bool
) -> Contents:
    """Return the subjects that patterns cover, with all versions that they refer to.

    ``latest``: only the latest version of each. ``configs``: with the configs and modes that these patterns
    cover. ``deleted``: with soft-deleted versions.
    """
    subjects = reader.subjects(patterns, deleted=deleted)
    for pattern in patterns:
        reader.read_ahead(pattern, deleted=deleted, latest=latest)
    places = [
        place
        for each in subjects
        for place in (reader.latest_place(each) if latest else reader.all_places(each, deleted=deleted))
    ]
    found = reader.contents(places)
    if not configs:
        return found
    contexts = {Subject(Subject.parse(each).context, "").qualified for each in subjects}
    covered = [each for each in contexts if any(one.covers(Subject.parse(each)) for one in patterns)]
    configured = reader.read_scopes(sorted({*subjects, *covered}))
    modes = {scope: mode for scope, mode in configured.modes.items() if scope or mode != "READWRITE"}
    return Contents(found.versions, configured.configs, modes)


@contextmanager
def open_journal_or_fail(client: RegistryClient) -> Iterator[ImportJournal]:
    """Open the journal of imports into a registry; its errors end the verb with a message."""
    try:
        with open_journal(os.environ, client.url) as journal:
            yield journal
    except JournalError as error:
        raise Failure(str(error)) from None


def restore_modes(client: RegistryClient, journal: ImportJournal) -> None:
    """Restore the former modes and report them."""
    with report_open_modes(client, journal):
        for subject, mode in journal.restore(client).items():
            note(f"mode of {subject}: {mode or 'none of its own'}, as before")


@contextmanager
def report_open_modes(client: RegistryClient, journal: ImportJournal) -> Iterator[None]:
    """If restoring modes fails, print the commands that do it."""
    try:
        yield
    except (RegistryError, KeyboardInterrupt):
        note("these may still be in mode IMPORT: run the command again, or these commands:")
        for subject, mode in journal.former_modes.items():
            does = f"set {mode}" if mode else "delete"
            note(f"  registrar mode {does} {shlex.quote(subject)} --url {client.url}")
        raise


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Treat SIGTERM, by which pipelines cancel their jobs, like Ctrl-C."""
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


class PlanOptions(NamedTuple):
    """The flags that say how a plan is carried out."""

    dry_run: bool = False
    yes: bool = False
    keep_ids: bool = False
    as_json: bool = False
    # End with DRIFT if there are steps to take; only with dry_run.
    exit_code: bool = False


def sync_registry(
    client: RegistryClient,
    wanted: Contents,
    options: PlanOptions,
    *,
    owned: Sequence[Pattern] = (),
    about: Sequence[Pattern] = (),
) -> int:
    """Print the plan that makes a registry hold ``wanted``, take its steps, and return the exit status.

    ``owned``: patterns of the subjects that are deleted if ``wanted`` lacks them. ``about``: those that
    cover most of ``wanted``.
    """
    unknown = [subject for subject, each in wanted if each.schema_id < 0 or not each.number]
    if options.keep_ids and unknown:
        raise FolderError(f"{unknown[0]} has no id to keep: download the folder with --keep-ids")
    with _journal(client, options) as journal:
        with progress(as_json=options.as_json) as steps:
            reader = RegistryReader(client, steps)
            present = present_for(reader, wanted, owned, about=about, keep_ids=options.keep_ids)
        unfinished: Collection[str] = ()
        if journal:
            present = present.with_modes(journal.former_modes)
            unfinished = journal.unfinished_subjects
        planned = plan(wanted, present, prune=owned, keep_ids=options.keep_ids, unfinished=unfinished)
        for text in reader.warnings:
            note(text)
        return _carry_out(client, planned, options, journal)


@contextmanager
def _journal(client: RegistryClient, options: PlanOptions) -> Iterator[ImportJournal | None]:
    """Open the journal of imports, and set modes back that an interrupted one left, for a ``with`` block."""
    if not options.keep_ids:
        yield None
        return
    with open_journal_or_fail(client) as journal:
        if not options.dry_run:
            restore_modes(client, journal)
        elif journal.former_modes:
            listed = ", ".join(journal.former_modes)
            note(
                "an interrupted import left subjects in mode IMPORT; their former modes are restored "
                f"first: {listed}"
            )
        yield journal


def _carry_out(
    client: RegistryClient, planned: Plan, options: PlanOptions, journal: ImportJournal | None
) -> int:
    if not options.as_json:
        print_lines(report.plan_lines(planned))
    done, status = 0, OK
    if not planned.possible:
        note("nothing was changed, because the registry would refuse some of it: see the lines with !")
        status = REFUSED
    elif options.dry_run:
        status = DRIFT if options.exit_code and planned.steps else OK
    elif planned.steps:
        status = _confirm_deletions(planned, options)
        if status == OK:
            done, status = _take(client, planned, journal, as_json=options.as_json)
    if journal and status == OK and not options.dry_run:
        journal.finish({each.subject for each in planned.outcomes})
    if options.as_json:
        print_json(report.plan_json(planned, done))
    elif status in (OK, DRIFT):
        count = len(planned.steps)
        print_lines([f"{count} step{'' if count == 1 else 's'}{' to take' if options.dry_run else ' taken'}"])
    return status


def _confirm_deletions(planned: Plan, options: PlanOptions) -> int:
    """Return ``OK`` if the plan deletes nothing or that is confirmed, else the exit status."""
    if options.yes or not any(step.sign == "-" for step in planned.steps):
        return OK
    if options.as_json or not sys.stdin.isatty():
        note("this deletes subjects: confirm with --yes")
        return FAILED
    if click.confirm("Delete what is marked with -?", err=True):
        return OK
    note("nothing was changed")
    return REFUSED


def _take(
    client: RegistryClient, planned: Plan, journal: ImportJournal | None, *, as_json: bool
) -> tuple[int, int]:
    """Take the steps; return the number of steps that were taken and the exit status."""
    done = 0
    if journal:
        journal.begin(planned.former_modes)
    try:
        with terminated_like_interrupted(), progress(as_json=as_json) as steps:
            for _ in perform(client, planned.steps):
                done += 1
                steps("taking steps", done, len(planned.steps))
    except (RegistryError, PlanOutdated) as error:
        note(f"{planned.steps[done].shows}: {error}")
        _report_rest(planned, done)
        _after_failure(client, journal)
        refused = isinstance(error, ErrorAnswer) and error.is_verdict
        return done, REFUSED if refused else FAILED
    except KeyboardInterrupt:
        _report_rest(planned, done)
        _after_failure(client, journal)
        raise
    return done, OK


def _report_rest(planned: Plan, done: int) -> None:
    count = f"{done} of {len(planned.steps)} steps were taken"
    note(f"{count}; these remain, and running the command again resumes it:")
    for step in planned.steps[done:]:
        note(f"  {step.sign} {step.shows}")


def _after_failure(client: RegistryClient, journal: ImportJournal | None) -> None:
    if journal is None:
        return
    try:
        restore_modes(client, journal)
    except RegistryError as error:
        note(str(error))
