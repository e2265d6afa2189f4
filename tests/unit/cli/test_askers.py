"""The words of plans about who still asks."""

from __future__ import annotations

import pytest

from registry.cli.verbs.askers import Asker, Askers, describe_askers


def asker(principal: str, agent: str, **versions: str) -> Asker:
    """Return an asker; ``versions``: the last day by ``vN``, ``v0``: of no version in particular."""
    asked = [
        {"version": int(name[1:]) or None, "requests": 1, "first": day, "last": day}
        for name, day in versions.items()
    ]
    return Asker(
        principal=principal, kind="user" if principal else "", agent=agent,
        address="" if principal else "10.0.0.1",
        last=max(versions.values()), versions=asked,  # type: ignore[typeddict-item] # as parsed
    )  # fmt: skip


def found(*askers: Asker, count: int | None = None) -> Askers:
    number = len(askers) if count is None else count
    return Askers(
        since="2026-11-01", last=None, askers=list(askers), askerCount=number, other=0, missingCount=0
    )


MANY = [asker(f"p{number}", "java", v1=f"2026-11-0{number}") for number in range(1, 6)]


@pytest.mark.parametrize(
    ("answer", "version", "words"),
    [
        (found(), 1, ""),
        (found(asker("billing", "java/7.5", v1="2026-11-02", v2="2026-11-03")), 1,
         "asked for by user:billing java/7.5 (last on 2026-11-02)"),
        (found(asker("billing", "java/7.5", v1="2026-11-02", v0="2026-11-03")), None,
         "asked for by user:billing java/7.5 (last on 2026-11-03)"),
        (found(asker("billing", "java/7.5", v2="2026-11-02", v0="2026-11-03")), 1, ""),
        (found(asker("", "", v1="2026-11-02"), asker("me", "registrar/1.0", v1="2026-11-05")), 1,
         "asked for by 10.0.0.1 (last on 2026-11-02)"),
        (found(*MANY), 1,
         "asked for by user:p5 java (last on 2026-11-05), user:p4 java (last on 2026-11-04), "
         "user:p3 java (last on 2026-11-03) and 2 more"),
        (found(count=4), 1, "4 clients have asked for the subject since 2026-11-01"),
    ],
)  # fmt: skip
def test_those_are_named_who_asked_last_but_not_the_command_line_itself(
    answer: Askers, version: int | None, words: str
) -> None:
    assert describe_askers(answer, version) == words


def test_those_who_ask_for_no_version_in_particular_are_named_where_one_is_deleted() -> None:
    both = found(
        asker("reader", "java", v1="2026-11-02"), asker("writer", "java", v0="2026-11-03", v2="2026-11-04")
    )
    others = "asked for without a version by user:writer java (last on 2026-11-03)"
    asked = "asked for by user:reader java (last on 2026-11-02)"
    assert describe_askers(both, 1, unnamed=True) == f"{asked}; {others}"
    assert describe_askers(both, 3, unnamed=True) == others
    assert describe_askers(both, unnamed=True).count("user:writer") == 1
