"""The scope of a census: which topics it counts, what it withdraws, and whose ids their messages name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from registry.domain.model import DEFAULT_CONTEXT, Subject

from .plan import KEY, READ, VALUE, PartitionRow

if TYPE_CHECKING:
    from registry.log.kafka.cluster_topics import DescribedTopic

# In front of patterns of topics that are left out.
OUT = "!"


def parse_patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of ``NAME,PREFIX*,!NAME,…``, sorted; raise :class:`ValueError` for others.

    Those with an exclamation mark leave topics out; without any other, they do so from all.
    """
    patterns = {each.strip() for each in text.split(",")} - {""}
    for each in sorted(patterns):
        if "*" in each[:-1] or "!" in each[1:] or each == OUT:
            raise ValueError(f"{each!r}: ! may only begin a pattern of topics, and * only end it")
    if not patterns:
        raise ValueError("no topics are named: give names, prefixes such as orders.*, or * for all")
    if all(each.startswith(OUT) for each in patterns):
        patterns.add("*")
    return tuple(sorted(patterns))


def matches(patterns: Iterable[str], topic: str) -> bool:
    """Return whether a topic is one of those that the patterns name and none that they leave out."""
    fitting = [each for each in patterns if _fits(each.removeprefix(OUT), topic)]
    return bool(fitting) and not any(each.startswith(OUT) for each in fitting)


def _fits(pattern: str, topic: str) -> bool:
    return topic.startswith(pattern[:-1]) if pattern.endswith("*") else topic == pattern


def is_in_scope(patterns: Iterable[str], topic: DescribedTopic) -> bool:
    """Return whether a census with these patterns counts a topic; never one that is internal to Kafka.

    By convention, names that begin with two underscores are those of tools, mostly with bytes of their own:
    only a pattern that begins so too names them, such as ``__debezium-heartbeat.*``.
    """
    if topic.name.startswith("__"):
        patterns = [each for each in patterns if each.startswith(("__", OUT))]
    return not topic.internal and matches(patterns, topic.name)


def stale_sources(
    stored: Iterable[str], found: Collection[str], patterns: Collection[str], former: Collection[str]
) -> Iterator[str]:
    """Yield the stored sources that a census withdraws, with its patterns and those of the one before it.

    These are topics that it covers and has not found, so they were deleted; and files that are not counted
    any more: the one before named them, and both cover all topics, so that it takes the other's place.
    """
    replaces = _covers_all_topics(patterns) and _covers_all_topics(former)
    files = {each.partition(":")[2] for each in former} if replaces else set()
    for each in stored:
        # Names of topics have no number sign, which those of files have.
        if each not in found and (each in files if "#" in each else matches(patterns, each)):
            yield each


# Stands for all topics that are not named.
OTHERS = "*"


def infer_contexts(subjects: Iterable[str]) -> dict[str, str]:
    """Return the contexts of topics by the qualified names of all subjects, soft-deleted ones included.

    A topic belongs to the only context that has a subject ``<topic>-key`` or ``<topic>-value``. Others are
    left out, because another context may own their ids; if there is only one context, :data:`OTHERS` is it.
    """
    contexts, every = defaultdict[str, set[str]](set), set[str]()
    for each in map(Subject.parse, subjects):
        every.add(each.context)
        topic, dash, side = each.name.rpartition("-")
        if dash and side in (KEY, VALUE):
            contexts[topic].add(each.context)
    if len(every) < 2:
        return {OTHERS: next(iter(every), DEFAULT_CONTEXT)}
    return {topic: next(iter(found)) for topic, found in contexts.items() if len(found) == 1}


def is_complete(patterns: Collection[str], rows: Iterable[PartitionRow], *, knows_all_topics: bool) -> bool:
    """Return whether a census covers every message, so that what it does not hold is unused."""
    read = all(row.state == READ for row in rows)
    return read and knows_all_topics and _covers_all_topics(patterns)


def _covers_all_topics(patterns: Collection[str]) -> bool:
    return "*" in patterns and not any(each.startswith(OUT) for each in patterns)
