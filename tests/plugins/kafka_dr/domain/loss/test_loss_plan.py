"""The inventory as it is approved, and when newer evidence needs another approval."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.loss_increase import NewerEvidence, increase_markdown, loss_increases, loss_now, review_digest
from kafka_dr.domain.loss.loss_page import loss_markdown
from kafka_dr.domain.loss.loss_plan import LastKnownGroup, LossPlan, SourceLastSeen

FIGURES = {"certain": 70, "possible": None, "losing": 1, "partitions": 3, "unknown": 1}
FIGURES |= {"records_per_second": 40, "groups_ahead": 1, "digest": "d" * 64}


def row(
    partition: int = 0, start: int = 10, certain: int | None = 80, possible: int | None = None, **more: Any
) -> dict[str, Any]:
    """A row of loss."""
    ends = {"from_offset": start, "certain_to": certain, "possible_to": possible}
    return {"topic": "orders", "partition": partition, **ends, "written_since": None, **more}


def plan(**changes: Any) -> LossPlan:
    """A plan with one partition that loses records and one group."""
    run = {"procedure_id": "p", "dag_id": "unplanned_failover", "source": "primary", "target": "standby"}
    given = {
        **run,
        "reason": "fire",
        "naming": "identity",
        "connectors": {},
        "topics": (("orders", "orders", 3, "id"),),
        "groups": (LastKnownGroup("billing", 3, "earliest", True, 1_700_000_000_000, 2),),
        "opening": (),
        "deadlines": {},
        "confirmed": {"state": "LOST", "window": "3 rounds in 15 s"},
        "inventory": FIGURES,
        "loss": (row(written_since=1_700_000_000_000),),
    }
    return LossPlan(**{**given, **changes})


def shown(**changes: Any) -> str:
    """What the approver reads."""
    made = plan(**changes)
    return loss_markdown(made.as_dict(), made.digest)


def test_the_approver_reads_what_is_lost_and_for_whom() -> None:
    """Certain, possible, unknown, the estimate under its name, partitions and groups."""
    text = shown()
    assert (
        "**Certainly lost: 70 records.** Possibly lost: the upper bound is unknown. 1 of 3 partitions may lose records."
        in text
    )
    assert "1 partitions were never sampled by the recorder: their log ends are unknown." in text
    assert "Estimate: when primary was last sampled, its logs grew by 40 records a second." in text
    assert "1 groups had consumed records that may not be on standby." in text
    assert "| orders-0 | 10 | 80 | no bound | 2023-11-14 22:13:20 UTC |" in text
    assert "| billing | 3 | 2 | unknown | 2023-11-14 22:13:20 UTC | earliest |" in text
    assert f"Plan digest `{plan().digest}`" in text and "overrides" not in text


def test_the_approver_reads_the_offset_option() -> None:
    """Before the figures of the loss, with what it means."""
    view = {"option": "custom_policy", "recorded": True, "reason": "names", "date": "2026-11-20", "person": None}
    text = shown(offset_option=view | {"means": "Topics keep their names.", "differs": []})
    line = "**Offset option custom_policy.** Topics keep their names. Chosen because: names (2026-11-20)."
    assert text.index(line) < text.index("**Certainly lost") and "Offset option" not in shown()


LISTED = {"records": 80, "bytes": 100, "first_at": 1_700_000_000_000, "last_at": 1_700_000_060_000}
LISTED |= {"aborted": 3, "undecided": 2}


def test_bytes_times_and_transactions_are_told_where_the_source_was_read() -> None:
    """From first to last, and what no transaction committed, or that it is unknown; it is in the digest."""
    text = shown(inventory=FIGURES | LISTED)
    assert (
        "primary was read: it held 80 records that may be lost, 100 bytes of keys and values, with timestamps from"
        " 2023-11-14 22:13:20 UTC to 2023-11-14 22:14:20 UTC." in text
    )
    assert (
        "Of these records 3 belong to aborted transactions, and 2 are undecided, because a transaction that began before"
        " them is still open."
        in text
        and "was not read" not in text
    )
    assert "primary was not read: bytes, timestamps and transactions of the lost records are unknown." in shown(
        inventory=FIGURES | dict.fromkeys(LISTED)
    )
    assert "with timestamps from unknown to unknown" in shown(
        inventory=FIGURES | LISTED | {"first_at": None, "last_at": None}
    )
    assert "primary was read: it held no record that may be lost." in shown(
        inventory=FIGURES | dict.fromkeys(LISTED, 0)
    )
    unread = shown(inventory=FIGURES | LISTED | {"unread": 2})
    assert "2 partitions that may lose records could not be read: their records are not counted. Of these" in unread
    none = dict.fromkeys(LISTED, 0)
    assert "held no record" not in shown(inventory=FIGURES | none | {"unread": 2})
    found = len(
        {plan(inventory=FIGURES | LISTED | {name: 9}).digest for name in LISTED}
        | {plan(inventory=FIGURES | LISTED).digest}
    )
    assert found == 7


def test_what_is_read_again_is_said_as_far_as_it_is_known() -> None:
    """The most of a position and of each group, for whom it is unknown, or nothing; it is in the digest."""
    told = {"bound": 700, "positions": 9, "unknown": 2, "may_have_moved": 3}
    text = shown(
        rereads=told,
        groups=(
            LastKnownGroup("billing", 3, "earliest", True, None, 0, 700),
            LastKnownGroup("audit", 1, "fail", False, None, 0),
        ),
    )
    assert (
        "Records that a group reads again on one partition: at most 700, and those that standby receives until MirrorMaker"
        " 2 is stopped." in text
    )
    assert (
        "3 of 9 positions belong to groups that may have committed later positions: the bound assumes that these groups"
        " have read all records that standby has." in text
    )
    assert "2 of 9 positions may have no matching offset on standby." in text
    assert text.index("| billing | 3 | 0 | 700 |") < text.index("| audit | 1 | 0 | unknown |")
    none = shown(rereads={"bound": None, "positions": 2, "unknown": 2, "may_have_moved": 0})
    assert "reads again" not in none + shown() and "2 of 2 positions may have" in none and "committed later" not in none
    assert plan(rereads=told).digest != plan().digest


def test_an_override_stands_out() -> None:
    """With its reason, and without markup from outside."""
    said = "**The checks did not show that primary is lost. The starter overrides the checks, because:** the site &lt;b&gt;"
    assert f"{said} burns" in shown(confirmed={"state": "SLOW", "window": "w", "override": "the site <b> burns"})


def test_a_cool_down_that_is_not_waited_for_stands_out() -> None:
    """As bold as an override, with its reason; it is in the digest."""
    told = {
        "procedure_id": "p-0",
        "outcome": "returned",
        "ended_at": "2026-11-20T12:00:00+00:00",
        "ends_at": "2026-11-20T12:15:00+00:00",
        "acknowledged": "the site <b> burns",
    }
    said = (
        "**p-0 ended as returned at 2026-11-20 12:00:00 UTC, and its cool-down lasts until 2026-11-20 12:15:00 UTC. The"
        " starter does not wait until then, because:** the site &lt;b&gt; burns"
    )
    assert said in shown(cool_down=told).splitlines() and "cool-down" not in shown()
    assert plan(cool_down=told).digest != plan().digest


CONTINUED = {
    "procedure_id": "planned-1",
    "fenced_at": None,
    "partitions": 0,
    "drained": 0,
    "missing": 0,
    "positions": None,
}


def test_what_is_taken_from_a_continued_run_is_said() -> None:
    """Only what was taken; and it is part of the digest."""
    told = CONTINUED | {"fenced_at": "10:00", "partitions": 3, "drained": 2, "positions": 5}
    text = shown(continues=told)
    assert (
        "**This run continues planned-1.** What that run has proven, and this run uses:" in text
        and "5 positions are final" in text
    )
    assert (
        "3 partitions have final log ends on primary, which was fenced at 10:00: no record above these log ends is lost."
        in text
    )
    assert "2 of these partitions are drained: standby has all records below these log ends." in text
    assert "were not found" not in text and "This run continues" not in shown()
    nothing = dict.fromkeys(told, None) | {"procedure_id": "planned-1"}
    assert "- nothing." in shown(continues=nothing)
    assert len({plan().digest, plan(continues=told).digest, plan(continues=nothing).digest}) == 3


def test_topics_that_the_source_had_deleted_are_told_apart() -> None:
    """By name, without markup from outside, cut where they are many; where there are none nothing is said."""
    assert (
        "1 topics do not move, because they were already deleted on primary. Their copies on standby remain unchanged:"
        " a&lt;b&gt;." in shown(gone=("a<b>",))
    )
    assert "60 topics do not move" in shown(gone=tuple(f"t{n}" for n in range(60)))
    assert "t49 and 10 more." in shown(gone=tuple(f"t{n}" for n in range(60)))
    assert "topics do not move" not in shown() and plan(gone=("a",)).digest != plan().digest


AT = 1_700_000_000_000
SEEN = {
    "by nobody after the sample": (
        SourceLastSeen(True, AT, AT - 4000),
        "The recorder's last sample of primary was made at 2023-11-14 22:13:20 UTC, and primary was not observed after that.",
    ),
    "by a heartbeat": (
        SourceLastSeen(True, AT, AT + 4200, None, AT + 31_000),
        "2023-11-14 22:13:20 UTC, 4 seconds before primary was last observed, by a mirrored heartbeat. The run began to check primary 31 seconds after that sample.",
    ),
    "a second later": (SourceLastSeen(True, AT, AT + 1000), ", 1 second before primary was last observed"),
    "long before": (
        SourceLastSeen(True, AT, AT + 5000, AT + 305_000, AT + 290_000),
        ", 5 min 05 s before primary was last observed, when it was read for this inventory. The run began to check primary 4 min 50 s after that sample.",
    ),
    "without a recorder": (
        SourceLastSeen(False, None, AT),
        "**There was no recorder**: the log ends of primary are not recorded. primary was last observed at 2023-11-14 22:13:20 UTC, by a mirrored heartbeat.",
    ),
    "without a recorder, by nobody": (
        SourceLastSeen(False),
        "**There was no recorder**: the log ends of primary are not recorded.\n",
    ),
    "with an empty archive": (
        SourceLastSeen(True, None, None, None, AT),
        "**The recorder's archive has no sample of primary**: the log ends of primary are not recorded.\n",
    ),
}


@pytest.mark.parametrize(("seen", "said"), SEEN.values(), ids=SEEN)
def test_the_approver_reads_how_old_the_last_sample_is(seen: SourceLastSeen, said: str) -> None:
    """In words, beside what else saw the source; and that there was none. It is in the digest."""
    assert said in shown(seen=asdict(seen))
    assert plan(seen=asdict(seen)).digest != plan(seen=asdict(SourceLastSeen(True, 1))).digest


@pytest.mark.parametrize(
    ("fence", "told"),
    [
        ("armed", "**primary cannot be fenced now: from its first answer"),
        ("by hook", "If the hook does not do that: from its first answer"),
        ("by acl", ""),
    ],
)
def test_the_approver_reads_that_both_sides_may_accept_writes(fence: str, told: str) -> None:
    """Where the source cannot be fenced before its clients go on: from its first answer until the watcher's fence."""
    text = shown(confirmed={"state": "lost", "window": "w", "fence": fence})
    assert told in text
    assert ("primary may accept writes while standby accepts writes, too" in text) is bool(told)


@pytest.mark.parametrize("fenced_at", ["2026-11-21T10:00:00+00:00", None])
def test_a_fence_that_was_proven_before_the_source_died_is_told(fenced_at: str | None) -> None:
    """By the planned run that is continued; one whose fence was not proven leaves the window open."""
    confirmed = {"state": "lost", "window": "w", "fence": "armed"}
    text = shown(confirmed=confirmed, continues=CONTINUED | {"fenced_at": fenced_at})
    assert ("**primary was fenced by planned-1 before primary was lost.**" in text) is bool(fenced_at)
    assert ("cannot be fenced now" in text) is (fenced_at is None)


NOTHING = dict.fromkeys(("certain", "possible", "losing", "unknown", "groups_ahead"), 0) | {"records_per_second": None}


def test_nothing_lost_is_said() -> None:
    """No table of nothing."""
    text = shown(
        loss=(),
        groups=(),
        inventory=FIGURES | NOTHING,
    )
    assert "was not read" not in text and "was read" not in text
    assert (
        "No partition loses a record." in text
        and "No position of any group was sampled." in text
        and "Possibly lost: at most 0" in text
    )
    assert "Estimate" not in text


def test_long_inventories_are_cut_and_say_so() -> None:
    """The largest certain losses first."""
    text = shown(loss=tuple(row(partition, 10, 11 + partition) for partition in range(60)))
    assert "| orders-59 | 10 | 70 |" in text and "| orders-9 |" not in text and "and 10 more partitions" in text


def test_every_figure_is_in_the_digest() -> None:
    """Another loss is another plan."""
    found = len(
        {
            plan().digest,
            plan(loss=()).digest,
            plan(inventory={**FIGURES, "digest": "e" * 64}).digest,
            plan(confirmed={"state": "SLOW"}).digest,
        }
    )
    assert found == 4


P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def told(approved: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    """What is said to be lost beyond what was approved."""
    return [f"{one.topic}-{one.partition} {one.why.split(': ')[0]}" for one in loss_increases(approved, now)]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ([row()], []),
        ([], []),
        ([row(start=20)], []),
        ([row(start=9)], ["orders-0 records are lost from 9 on, and the approval was for loss from 10 on"]),
        (
            [row(certain=90)],
            ["orders-0 records are certainly lost up to 90, and the approval was for certain loss up to 80"],
        ),
        ([row(certain=None)], []),
        ([row(possible=100)], []),
        (
            [row(possible=100, accepted_to=100)],
            ["orders-0 more records are lost, up to 100, unless they are on the target"],
        ),
        ([row(start=100, certain=None, possible=100, accepted_to=100)], []),
        (
            [row(partition=1, start=5)],
            ["orders-1 no loss was approved for this partition, and now records are lost from 5 on"],
        ),
    ],
)
def test_more_than_was_approved_is_named(now: list[dict[str, Any]], said: list[str]) -> None:
    """Less is not; nor is what the source accepted since and the target has."""
    assert told([row()], now) == said


def test_a_bound_that_is_exceeded_is_named() -> None:
    """Also where there is none any more; what stays inside an approved bound is no more than was approved."""
    approved = [row(possible=100)]
    assert told(approved, [row(certain=100, possible=100, accepted_to=100)]) == []
    assert told(approved, [row(possible=101)]) == [
        "orders-0 records are lost up to 101, and the approval was for loss up to 100"
    ]
    assert told(approved, [row(possible=None)]) == [
        "orders-0 records are lost up to an unknown end, and the approval was for loss up to 100"
    ]


def test_where_nothing_was_found_out_the_approved_rows_stand() -> None:
    """Word for word: also those that other evidence does not speak of."""
    approved = [row(), row(1, records=7, evidence="x")]
    assert (
        loss_now(approved, NewerEvidence())
        == approved
        == loss_now(approved, NewerEvidence(target_ends={P0: (70, 70), P1: (None, None)}, replicated={P0: 500}))
    )


def offsets(found: NewerEvidence, **before: Any) -> tuple[Any, ...]:
    """First offset, certain end and possible end of the one row by newer evidence."""
    (now,) = loss_now([row(**before)], found)
    assert now["approved"] == {name: row(**before)[name] for name in ("from_offset", "certain_to", "possible_to")}
    assert now["evidence"] and now["records"] is None
    return now["from_offset"], now["certain_to"], now["possible_to"]


@pytest.mark.parametrize("ends", [40, None])
def test_nothing_is_certain_on_a_target_whose_log_has_shrunk(ends: int | None) -> None:
    """It was cut, or made anew: nobody knows what of it is left, whatever Connect keeps."""
    found = NewerEvidence(target_ends={P0: (70, ends)}, replicated={P0: 90})
    assert offsets(found) == (0, None, None)
    assert told([row()], loss_now([row()], found)) == [
        "orders-0 records are lost from 0 on, and the approval was for loss from 10 on"
    ]
    assert [(one["partition"], one["from_offset"]) for one in loss_now([], found)] == [(0, 0)], (
        "a partition that lost nothing does so now"
    )


@pytest.mark.parametrize(("replicated", "first"), [({}, 10), ({P0: 5}, 10), ({P0: 49}, 50)])
def test_what_the_target_took_since_is_not_certainly_lost_any_more(
    replicated: dict[TopicPartition, int], first: int
) -> None:
    """What Connect keeps is replicated; of what lies above it nothing is certain."""
    assert offsets(NewerEvidence(target_ends={P0: (70, 75)}, replicated=replicated)) == (first, None, None)


def test_what_the_source_accepted_is_lost_where_the_target_stood_still() -> None:
    """Certainly, if that was known of what lies below; its end is known by now."""
    found = NewerEvidence(target_ends={P0: (70, 70)}, accepted_to={P0: 200})
    assert offsets(found) == (10, 200, 200) and offsets(found, certain=None) == (10, None, 200)
    assert told([row()], loss_now([row()], found)) == [
        "orders-0 records are certainly lost up to 200, and the approval was for certain loss up to 80"
    ]


def test_what_the_source_accepted_may_be_on_a_target_that_moved() -> None:
    """With all of it kept by Connect nothing more is lost; without a look at the target nothing new is certain."""
    moved = NewerEvidence(target_ends={P0: (70, 99)}, replicated={P0: 150}, accepted_to={P0: 200})
    assert offsets(moved) == (151, None, 200)
    assert told([row()], loss_now([row()], moved)) == [
        "orders-0 more records are lost, up to 200, unless they are on the target"
    ]
    mirrored = NewerEvidence(target_ends={P0: (70, 199)}, replicated={P0: 199}, accepted_to={P0: 200})
    assert offsets(mirrored) == (200, None, 200) and loss_increases([row()], loss_now([row()], mirrored)) == []
    assert offsets(NewerEvidence(accepted_to={P0: 200})) == (10, 80, 200)


def test_a_topic_that_nobody_knew_is_lost_from_its_beginning() -> None:
    """The source had made it since."""
    _, new = loss_now([row()], NewerEvidence(accepted_to={P1: 30}))
    found = (new["partition"], new["from_offset"], new["certain_to"], new["possible_to"], new["approved"])
    assert found == (1, 0, None, 30, None)
    assert told([row()], [new]) == [
        "orders-1 no loss was approved for this partition, and now records are lost from 0 on"
    ]


def test_the_reviews_digest_is_of_both_where_more_is_lost() -> None:
    """Another translation is another digest, and another loss; without more it is the translation's."""
    more = loss_increases([row()], [row(start=9), row(1)])
    assert review_digest("t", []) == "t"
    assert len({"t", review_digest("t", more), review_digest("u", more), review_digest("t", more[:1])}) == 4


def test_both_figures_stand_side_by_side() -> None:
    """With why, and without markup from outside; a long list is cut and says so."""
    text = "\n".join(
        increase_markdown(
            loss_increases([row()], [row(start=9, evidence="the target <b> shrank"), row(1, certain=None)])
        )
    )
    assert "**More is lost than was approved, on 2 partitions.**" in text
    assert (
        "| orders-0 | 10, 80, no bound | 9, 80, no bound | records are lost from 9 on, and the approval was for loss from 10 on: the target"
        " &lt;b&gt; shrank |" in text
    )
    assert "| orders-1 | nothing | 10, none, no bound |" in text
    assert "and 10 more partitions" in "\n".join(
        increase_markdown(loss_increases([], [row(partition) for partition in range(60)]))
    )
    assert increase_markdown([]) == []
