"""``registrar torture``."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from registry.cli.output import (
    OK,
    REFUSED,
    Failure,
    json_option,
    note,
    print_json,
    print_lines,
    print_styled,
    progress,
)
from registry.cli.registry_flags import confirm_everything, report_errors, with_connection
from registry.cli.verb import SectionOption, Verb

if TYPE_CHECKING:
    from registry.cli.client.client import RegistryClient
    from registry.cli.client.connect import Connection
    from registry.cli.torture.history import FailureKind
    from registry.cli.torture.laws import Violation
    from registry.cli.torture.run import Plan, Verdict

_F = TypeVar("_F", bound=Callable[..., Any])
_LAW = "What counts as a violation"
_FAULTS = "Faults"
_SEED_MAX = 1 << 31


def _seconds(name: str, section: str, least: float, default: float, text: str) -> Callable[[_F], _F]:
    """Return a decorator that adds an option of so many seconds, at most an hour."""
    return click.option(
        name,
        cls=SectionOption,
        section=section,
        type=click.FloatRange(least, 3600),
        default=default,
        metavar="SECONDS",
        help=f"{text} [default: {default:g}].",
    )


@click.command(
    "torture",
    cls=Verb,
    epilog="Exit status: 0 no violation, 1 violations found or declined, 2 no verdict.",
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help="An address of the registry; repeat it for each node [environment: REGISTRAR_URL].",
)
@click.option("--seconds", type=click.FloatRange(1), default=60.0, help="Duration of the load [default: 60].")
@click.option("--clients", type=click.IntRange(1, 64), default=8, help="Concurrent clients [default: 8].")
@click.option("--seed", type=click.IntRange(0), help="Repeat the choices of the run with this seed.")
@click.option("--turns", type=click.IntRange(1), default=1_000_000, help="End a client after so many turns.")
@click.option(
    "--prefix", default="torture-", metavar="PREFIX", help="Prefix of its subjects; a random part follows."
)
@click.option("--history", "file", metavar="FILE", help="Write all operations to FILE, as JSON lines.")
@click.option("--yes", is_flag=True, help="Do not ask before a run on a registry that has subjects.")
@json_option
@_seconds("--staleness", _LAW, 0, 0.0, "How long an address may miss what was acknowledged")
@_seconds(
    "--max-unavailable", _LAW, 0, 30.0, "How long an operation may be answered by no address, or with 5xx"
)
@click.option(
    "--ignore",
    cls=SectionOption,
    section=_LAW,
    multiple=True,
    metavar="LAW",
    help="Do not report violations of this law; repeatable (docs/torture.md).",
)
@click.option(
    "--hook",
    cls=SectionOption,
    section=_FAULTS,
    default="",
    metavar="CMD",
    help="Run CMD ADDRESS at random moments: it injects a fault there, and heals it before it ends.",
)
@_seconds("--every", _FAULTS, 0.1, 10.0, "Mean pause between runs of the hook")
@_seconds("--settle", _FAULTS, 0, 60.0, "How long an address may take to answer after the load")
@with_connection(url=False)
def torture(connection: Connection, **given: Any) -> int:
    """Test whether a registry keeps its promises under load and faults.

    Concurrent clients register, delete, and read on every address what was just acknowledged. The verdict
    comes with the few operations that prove each violation. Only subjects that it creates are changed; they
    are deleted at the end. Works with any registry that has Confluent's API. Do not run it on one that others
    rely on.
    """
    flags = _Flags(**given)
    _check_laws(flags.ignore)
    with report_errors():
        clients = connection._replace(url=",".join(flags.urls)).open_each(os.environ)
        try:
            return _run(clients, flags)
        finally:
            for each in clients:
                each.close()


class _Flags(NamedTuple):
    urls: tuple[str, ...]
    seconds: float
    clients: int
    seed: int | None
    turns: int
    prefix: str
    file: str | None
    yes: bool
    as_json: bool
    staleness: float
    max_unavailable: float
    ignore: tuple[str, ...]
    hook: str
    every: float
    settle: float


def _check_laws(names: tuple[str, ...]) -> None:
    from registry.cli.torture.laws import NAMES  # noqa: PLC0415 - the help needs no laws

    if unknown := [each for each in names if each not in NAMES]:
        raise click.UsageError(
            f"unknown law {unknown[0]!r}; choose from {', '.join(NAMES)}", click.get_current_context()
        )


def _run(clients: list[RegistryClient], flags: _Flags) -> int:
    from registry.cli.torture.run import HookFailed, own_prefix, torture, try_out  # noqa: PLC0415 - as above

    plan = _plan(flags, own_prefix(flags.prefix))
    for each in clients:
        each.get("/schemas/types", list[str])
    if clients[0].get("/subjects", list[str], limit=1):
        question = f"The registry at {clients[0].url} has subjects. Put it under heavy load?"
        confirm_everything("", question, yes=flags.yes)
    _try_out(clients[0], plan.prefix, try_out)
    try:
        with progress(as_json=flags.as_json) as report:
            verdict = torture(clients, plan, report)
    except HookFailed as error:
        raise Failure(str(error)) from None
    if flags.file:
        _write(Path(flags.file), verdict, plan)
    if verdict.left:
        note(f"{len(verdict.left)} subjects could not be deleted: they begin with {plan.prefix}")
    found = [each for each in verdict.violations if each.law not in flags.ignore]
    _print(found, verdict, plan, as_json=flags.as_json)
    return REFUSED if found else OK


def _plan(flags: _Flags, prefix: str) -> Plan:
    from registry.cli.torture.load import Limits  # noqa: PLC0415 - as above
    from registry.cli.torture.run import Plan  # noqa: PLC0415 - as above

    seed = random.SystemRandom().randrange(_SEED_MAX) if flags.seed is None else flags.seed
    limits = Limits(flags.seconds, flags.turns, flags.staleness, flags.max_unavailable)
    return Plan(limits, flags.clients, seed, prefix, flags.settle, flags.hook, flags.every)


def _try_out(client: RegistryClient, prefix: str, try_out: Any) -> None:
    from registry.cli.client.resources import ErrorAnswer  # noqa: PLC0415 - as above

    try:
        try_out(client, prefix)
    except ErrorAnswer as error:
        raise Failure(f"nothing can be registered under {prefix}…: {error}", error.code) from None


def _write(file: Path, verdict: Verdict, plan: Plan) -> None:
    from registry.cli.torture.history import FORMAT, failure_kind  # noqa: PLC0415 - as above

    try:
        with file.open("w", encoding="utf-8") as lines:
            print(_line({"format": FORMAT, "prefix": plan.prefix, "seed": plan.seed}), file=lines)
            for each in verdict.operations:
                failure = failure_kind(each, verdict.faults)
                fault = {"fault": failure.fault} if failure is not None and failure.fault else {}
                print(_line(each.as_json() | fault), file=lines)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}") from None


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _sentence(kind: FailureKind) -> str:
    """Return how a kind of requests failed, and where the hook ran meanwhile."""
    code = f" ({kind.code})" if kind.code else ""
    without = "without an answer" if kind.sent else "without a connection"
    answer = f"with {kind.status}{code}" if kind.status else without
    places = {"here": "during a fault there", "elsewhere": "during a fault at another address"}
    return f"{answer}, {places.get(kind.fault, 'without a fault')}"


def _print(found: list[Violation], verdict: Verdict, plan: Plan, *, as_json: bool) -> None:
    first = {each.law: each for each in reversed(found)}
    laws = {law: sum(each.law == law for each in found) for law in sorted(first)}
    if as_json:
        print_json({
            "seed": plan.seed, "prefix": plan.prefix, "hooks": len(verdict.faults),
            "operations": verdict.counts,
            "failures": [{**kind._asdict(), "count": count} for kind, count in verdict.failures],
            "violations": laws, "proofs": [first[law].as_json() for law in laws],
        })  # fmt: skip
        return
    counts = ", ".join(f"{count} {name}" for name, count in verdict.counts.items())
    print_lines([f"{counts}, {len(verdict.faults)} runs of the hook, seed {plan.seed}"])
    print_lines(f"failed: {count} {_sentence(kind)}" for kind, count in verdict.failures)
    for law, count in laws.items():
        print_styled(f"{law}: {count}, for example: {first[law].sentence}", "bold red")
        print_lines(_line(each.as_json()) for each in first[law].operations)
    if not found:
        print_styled("no violation", "bold green")
