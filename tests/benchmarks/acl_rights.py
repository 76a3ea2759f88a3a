"""(k) Which of 500 clients may write to which of 5,000 topics, by 20,000 ACL entries, and the fence against them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from kafka_dr.domain.fencing.fence import FenceScope, fence_changes, still_allowed
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules

from tests.benchmarks.measuring import Bound, Figures, say

T = TypeVar("T")
WHO_MAY, FENCE = "(k) rights of 500 clients on 5,000 topics", "(k) the fence against 50 clients on 500 topics"
CLIENTS, TOPICS, ENTRIES, TEAMS = 500, 5_000, 20_000, 50


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    figures.promise(WHO_MAY, Bound(1.0), " s")
    figures.promise(FENCE, Bound(1.0), " s")


def run(figures: Figures, scale: float, passes: int) -> None:
    """Measure in this process; no cluster is needed."""
    topics = [f"team-{number % TEAMS}.topic-{number}" for number in range(TOPICS)]
    rules = AclRules(some_entries(topics, int(ENTRIES * scale)))
    scope = FenceScope.writes(topics)
    seconds, found = best_of(passes, lambda: still_allowed(rules, scope, frozenset()))
    figures.measured(WHO_MAY, seconds, f"{len(found):,} rights")
    few = FenceScope.writes(topics[:: TOPICS // 500])
    clients = frozenset(f"User:app-{number}" for number in range(50))
    named = AclRules(frozenset(entry for entry in rules.entries if entry.principal in clients))
    seconds, changes = best_of(passes, lambda: fence_changes(named, few, frozenset({"User:mm2"}), topics))
    figures.measured(FENCE, seconds, f"{len(changes.added):,} entries")


def best_of(passes: int, work: Callable[[], T]) -> tuple[float, T]:
    """Return the shortest time of some passes, in seconds, and what the last pass returned."""
    took = []
    for _ in range(passes):
        began = time.perf_counter()
        result = work()
        took.append(time.perf_counter() - began)
    say(f"  {', '.join(f'{seconds:.3f}' for seconds in took)} s")
    return min(took), result


def some_entries(topics: list[str], count: int) -> frozenset[AclEntry]:
    """Return random entries: most name a topic, some a team's prefix, some every topic."""
    chance, entries = random.Random(28), set()
    while len(entries) < count:
        kind = chance.random()
        name, pattern = (
            (chance.choice(topics), "literal")
            if kind < 0.6
            else (f"team-{chance.randrange(TEAMS)}.", "prefixed")
            if kind < 0.95
            else ("*", "literal")
        )
        principal, operation = (
            f"User:app-{chance.randrange(CLIENTS)}",
            chance.choice(("read", "write", "describe", "all")),
        )
        permission = "deny" if chance.random() < 0.25 else "allow"
        entries.add(AclEntry("topic", name, pattern, principal, "*", operation, permission))
    return frozenset(entries)
