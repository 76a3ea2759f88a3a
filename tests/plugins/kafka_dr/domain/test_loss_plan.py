"""The inventory as it is approved, and when newer evidence needs another approval."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_dr.domain.loss_plan import LastKnownGroup, LossPlan, grown, loss_markdown

FIGURES = {"certain": 70, "possible": None, "losing": 1, "partitions": 3, "unknown": 1, "records_per_second": 40, "groups_ahead": 1, "digest": "d" * 64}


def row(partition: int = 0, start: int = 10, certain: int | None = 80, possible: int | None = None, **more: Any) -> dict[str, Any]:
    """A row of loss."""
    return {"topic": "orders", "partition": partition, "from_offset": start, "certain_to": certain, "possible_to": possible, "written_since": None, **more}


def plan(**changes: Any) -> LossPlan:
    """A plan with one partition that loses records and one group."""
    given = {
        "procedure_id": "p", "dag_id": "unplanned_failover", "source": "primary", "target": "standby", "reason": "fire", "naming": "identity", "connectors": {},
        "topics": (("orders", "orders", 3, "id"),), "local_names": {"orders": "orders"}, "groups": (LastKnownGroup("billing", 3, "earliest", True, 1_700_000_000_000, 2),),
        "opening": (), "deadlines": {}, "confirmed": {"state": "LOST", "window": "3 rounds in 15 s"}, "inventory": FIGURES, "loss": (row(written_since=1_700_000_000_000),),
    }  # fmt: skip
    return LossPlan(**{**given, **changes})


def shown(**changes: Any) -> str:
    """What the approver reads."""
    made = plan(**changes)
    return loss_markdown(made.as_dict(), made.digest)


def test_the_approver_reads_what_is_lost_and_for_whom() -> None:
    """Certain, possible, unknown, the estimate under its name, partitions and groups."""
    text = shown()
    assert "**Certainly lost: 70 records.** Possibly lost: nobody knows how many at most. 1 of 3 partitions are concerned." in text
    assert "1 partitions were never sampled" in text and "Estimate, from how fast the source grew" in text and "40 records a second" in text
    assert "| orders-0 | 10 | 80 | no bound | 2023-11-14T22:13:20+00:00 |" in text
    assert "| billing | 3 | 2 | 2023-11-14T22:13:20+00:00 | earliest |" in text
    assert f"Plan digest `{plan().digest}`" in text and "overrides" not in text


def test_an_override_stands_out() -> None:
    """With its reason, and without markup from outside."""
    assert "**It was not found lost. The starter overrides this, because:** the site &lt;b&gt; burns" in shown(confirmed={"state": "SLOW", "window": "w", "override": "the site <b> burns"})


@pytest.mark.parametrize(("fence", "told"), [("armed", "**primary cannot be fenced now: it may accept writes"), ("by hook", "where it does not, it may accept writes"), ("by acl", "")])
def test_the_approver_reads_that_both_sides_may_accept_writes(fence: str, told: str) -> None:
    """Where the source cannot be fenced before its clients go on: from its first answer until the watcher's fence."""
    text = shown(confirmed={"state": "lost", "window": "w", "fence": fence})
    assert told in text and ("from its first answer until the watcher's fence, while standby accepts them, too" in text) is bool(told)


def test_nothing_lost_is_said() -> None:
    """No table of nothing."""
    text = shown(loss=(), groups=(), inventory={**FIGURES, "certain": 0, "possible": 0, "losing": 0, "unknown": 0, "records_per_second": None, "groups_ahead": 0})
    assert "No partition loses a record." in text and "No group is known" in text and "Possibly lost: at most 0" in text and "Estimate" not in text


def test_long_inventories_are_cut_and_say_so() -> None:
    """The largest certain losses first."""
    text = shown(loss=tuple(row(partition, 10, 11 + partition) for partition in range(60)))
    assert "| orders-59 | 10 | 70 |" in text and "| orders-9 |" not in text and "and 10 more partitions" in text


def test_every_figure_is_in_the_digest() -> None:
    """Another loss is another plan."""
    assert len({plan().digest, plan(loss=()).digest, plan(inventory={**FIGURES, "digest": "e" * 64}).digest, plan(confirmed={"state": "SLOW"}).digest}) == 4


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ([row()], []),
        ([], []),
        ([row(start=20)], []),
        ([row(start=9)], ["orders-0 loses from 9 on, not from 10"]),
        ([row(certain=90)], ["orders-0 certainly loses up to 90, not to 80"]),
        ([row(certain=None)], []),
        ([row(possible=100)], []),
        ([row(partition=1, start=5)], ["orders-1 was held to be complete, and loses records from 5 on"]),
    ],
)
def test_more_than_was_approved_is_named(now: list[dict[str, Any]], told: list[str]) -> None:
    """Less is not."""
    assert grown([row()], now) == told


def test_a_bound_that_is_exceeded_is_named() -> None:
    """Also where there is none any more; what stays inside an approved bound is no more than was approved."""
    approved = [row(possible=100)]
    assert grown(approved, [row(certain=100, possible=100)]) == []
    assert grown(approved, [row(possible=101)]) == ["orders-0 loses up to 101, not to 100"]
    assert grown(approved, [row(possible=None)]) == ["orders-0 loses up to an unknown end, not to 100"]
