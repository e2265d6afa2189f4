"""Taking the steps of a plan, with a journal on disk of unfinished imports."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from registry.base.processes import file_lock
from registry.cli.client.client import RegistryClient
from registry.cli.client.resources import (
    LATEST,
    ErrorAnswer,
    Found,
    Mode,
    Registered,
    scope_path,
    subject_path,
    version_path,
)
from registry.cli.client.transport import NOTHING
from registry.cli.folder.steps import Step
from registry.domain.commands import (
    Command,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    PutConfig,
    PutMode,
    Register,
)
from registry.domain.errors import STATE_CHANGED
from registry.domain.model import DEFAULT_TYPE

_IMPORT = "IMPORT"


class JournalError(Exception):
    """A journal that cannot be used; the text names the file and says what to do."""


class _Notes(msgspec.Struct):
    """The content of the file."""

    # The registry, for people.
    url: str
    # Modes that subjects in mode IMPORT had before; ``None`` if they had none of their own.
    former_modes: dict[str, str | None] = {}
    # Subjects of which only a part may have been imported.
    unfinished: list[str] = []


class ImportJournal:
    """Former modes of the subjects that are being imported into one registry.

    They are on disk before a mode is changed, so they survive the process.
    """

    def __init__(self, path: Path, url: str) -> None:
        self._path = path
        self._notes = _Notes(url)
        try:
            self._notes = msgspec.json.decode(path.read_bytes(), type=_Notes)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError) as error:
            text = f"{path}, which holds the former modes of subjects of {url}, cannot be read: {error}"
            raise JournalError(f"{text}; repair or remove it") from None

    @property
    def former_modes(self) -> Mapping[str, str | None]:
        """The modes that are to be set back."""
        return self._notes.former_modes

    @property
    def unfinished_subjects(self) -> Collection[str]:
        """The subjects of which an interrupted import left a part."""
        return self._notes.unfinished

    def begin(self, former_modes: Mapping[str, str | None]) -> None:
        """Note an import of these subjects; call it before their modes are changed."""
        self._notes.former_modes |= former_modes
        self._notes.unfinished = sorted({*self._notes.unfinished, *former_modes})
        self._save()

    def restore(self, client: RegistryClient) -> dict[str, str | None]:
        """Set the modes back where they are still IMPORT; return these.

        Raises :class:`registry.cli.client.resources.RegistryError`; what is not set back stays noted.
        """
        restored = {}
        for subject, mode in list(self.former_modes.items()):
            if own_mode(client, subject) == _IMPORT:
                set_mode(client, subject, mode)
                restored[subject] = mode
            del self._notes.former_modes[subject]
        self._save()
        return restored

    def finish(self, subjects: Collection[str]) -> None:
        """Forget an import that is complete."""
        for subject in subjects:
            self._notes.former_modes.pop(subject, None)
        self._notes.unfinished = [each for each in self._notes.unfinished if each not in subjects]
        self._save()

    def _save(self) -> None:
        if not self._notes.former_modes and not self._notes.unfinished:
            self._path.unlink(missing_ok=True)
            return
        data = msgspec.json.encode(self._notes)
        file_lock.replace(self._path, data, self._path.with_suffix(".part"))


def own_mode(client: RegistryClient, subject: str) -> str | None:
    """Return the mode of exactly this subject, ``None`` if it has none."""
    try:
        found: str = client.get(scope_path("mode", subject), Mode)["mode"]
    except ErrorAnswer as error:
        if error.is_verdict:
            return None
        raise
    return found


def set_mode(client: RegistryClient, subject: str, mode: str | None) -> None:
    """Set the mode of a subject; ``None``: remove it."""
    path = scope_path("mode", subject)
    if mode is None:
        client.delete(path)
    else:
        client.put(path, {"mode": mode}, force=True)


@contextmanager
def open_journal(environment: Mapping[str, str], url: str) -> Iterator[ImportJournal]:
    """Open the journal of imports into the registry at ``url``, for one import at a time.

    It lies in ``$XDG_STATE_HOME/registrar``, by default ``~/.local/state/registrar``. Raises
    :class:`JournalError`.
    """
    home = environment.get("HOME", "")
    state = environment.get("XDG_STATE_HOME") or (f"{home}/.local/state" if home else "")
    if not state:
        raise JournalError("there is no folder for the state of imports: set HOME or XDG_STATE_HOME")
    path = Path(state, "registrar", f"import-{hashlib.sha256(url.encode()).hexdigest()[:16]}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = file_lock.hold(path.with_suffix(".lock"))
    except OSError as error:
        text = f"cannot keep notes on imports in {path.parent}: {error.strerror}"
        raise JournalError(f"{text}; set XDG_STATE_HOME to another folder") from None
    except file_lock.LockHeld as error:
        text = f"another import into {url} is running in process {error}"
        raise JournalError(f"{text}: wait until it has ended") from None
    try:
        yield ImportJournal(path, url)
    finally:
        os.close(lock)


# Members of configs whose names in requests differ from those in answers.
_SENT_AS: Final = {"compatibilityLevel": "compatibility"}


_AGAIN = "another client is writing to this registry; run the command again"


class PlanOutdated(Exception):
    """The registry does not do what the plan says: it changed, or is of another kind."""


def perform(client: RegistryClient, steps: Sequence[Step]) -> Iterator[Step]:
    """Take steps in order; yield each one that is done.

    Raises :class:`registry.cli.client.resources.RegistryError` and :class:`PlanOutdated`.
    """
    for step in steps:
        try:
            answer = _send(client, step.command, _find_tag(client, step))
        except ErrorAnswer as error:
            if error.code != STATE_CHANGED.code:
                raise
            raise PlanOutdated(f"{error.message}; {_AGAIN}") from None
        if isinstance(step.command, Register):
            wanted, given = step.command.schema_id, answer.get("id")
            if wanted >= 0 and given != wanted:
                raise PlanOutdated(
                    f"{step.command.subject} got the id {given} instead of {wanted}: this registry "
                    "does not keep ids; delete what was registered, and register it without them"
                )
            number = _number(client, step.command, answer)
            if number != step.number:
                raise PlanOutdated(
                    f"{step.command.subject} became version {number} instead of {step.number}: {_AGAIN}"
                )
        yield step


def _find_tag(client: RegistryClient, step: Step) -> str:
    """Return the ETag under which a step may be taken; empty if it needs none. Raises :class:`PlanOutdated`.

    Registries of others have no ETags; there only the comparison is left.
    """
    command = step.command
    if not step.conditional or step.planned_on is None:
        return NOTHING if step.conditional else ""
    match command:
        case PutConfig(subject=subject):
            path = scope_path("config", subject or "")
        case PutMode(subject=subject) | DeleteMode(subject=subject):
            path = scope_path("mode", subject or "")
        case _:
            path = version_path(getattr(command, "subject", ""), LATEST)
    found, tag = client.get_with_tag(path)
    # A config may have gained members; but where none was stored, it shows the server's defaults.
    whole = isinstance(command, PutConfig) and tag and step.planned_on
    seen = found if found is None or whole else {name: found.get(name) for name in step.planned_on}
    if seen != step.planned_on:
        raise PlanOutdated(f"{path} has changed since the plan was made: {_AGAIN}")
    return tag


def _send(client: RegistryClient, command: Command, tag: str) -> Any:
    match command:
        case Register():
            path = f"{subject_path(command.subject)}/versions"
            return client.post(path, _body(command), Registered, if_match=tag)
        case PutConfig():
            body = {_SENT_AS.get(name, name): value for name, value in command.patch.items()}
            return client.put(scope_path("config", command.subject or ""), body, if_match=tag)
        case PutMode():
            path = scope_path("mode", command.subject or "")
            return client.put(path, {"mode": command.mode}, force=command.force, if_match=tag)
        case DeleteMode():
            return client.delete(scope_path("mode", command.subject or ""), if_match=tag)
        case DeleteVersion():
            return client.delete(version_path(command.subject, command.version))
        case DeleteSubject():
            return client.delete(subject_path(command.subject), if_match=tag)
    raise AssertionError(command)


def _number(client: RegistryClient, command: Register, answer: Any) -> int:
    """Return the number that a schema got; registries of others do not answer with it."""
    found = answer.get("version")
    if found is None:
        found = client.post(subject_path(command.subject), _body(command), Found)["version"]
    return int(found)


def _body(command: Register) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": command.schema}
    if command.schema_type != DEFAULT_TYPE:
        body["schemaType"] = command.schema_type
    if command.references:
        body["references"] = msgspec.to_builtins(command.references)
    if command.metadata is not None:
        body["metadata"] = msgspec.to_builtins(command.metadata)
    if command.rule_set is not None:
        body["ruleSet"] = msgspec.to_builtins(command.rule_set)
    if command.schema_id >= 0:
        body |= {"id": command.schema_id, "version": command.version}
    return body
