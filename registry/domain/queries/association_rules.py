"""The rules about associations that differ between Confluent's releases: one table, a row per release."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociationRules:
    """The rules of one release; those that all releases share are not listed here."""

    # Strong implies frozen: a strong association that is not frozen is refused (42212).
    strong_is_frozen: bool = False
    # All associations of a resource have the same lifecycle (42212).
    one_lifecycle: bool = False
    # An upsert creates only weak associations, without a schema (42212); strong ones need a subject in IMPORT
    # mode.
    upsert_creates_weak: bool = False
    # A frozen association needs a subject without versions. Otherwise a subject is also accepted if its
    # latest version is 1 and equals the given schema.
    frozen_needs_empty_subject: bool = False
    # Versions must not refer to a subject with a strong association (42205, 42206).
    strong_excludes_references: bool = False
    # Adjacent operations of one kind in a batch are decided together, and a request may name each type only
    # once. Otherwise each operation is decided on its own.
    batch_in_runs: bool = False
    # Lists of associations omit `frozen` if it follows from the lifecycle.
    omits_implied_frozen: bool = False


# By the values of the setting `associations_rules`. "8.3" covers 8.2.2 to 8.3.1; "next" covers the branches
# of 8.2.4 and 8.3.2 as of November 2026, before their release.
ASSOCIATION_RULES = {
    "8.3": AssociationRules(),
    "next": AssociationRules(
        strong_is_frozen=True,
        one_lifecycle=True,
        upsert_creates_weak=True,
        frozen_needs_empty_subject=True,
        strong_excludes_references=True,
        batch_in_runs=True,
        omits_implied_frozen=True,
    ),
}
RELEASED = ASSOCIATION_RULES["8.3"]
