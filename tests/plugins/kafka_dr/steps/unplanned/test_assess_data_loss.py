"""assess_data_loss: what Spark is given is what it expects, whatever lacks; and a plan always comes of it, which
names that.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.loss import last_known_state as last_known
from kafka_dr.actions.loss.assessment import read_present_facts, reading_seconds, write_inputs
from kafka_dr.actions.loss.failover_plan import with_rereads
from kafka_dr.actions.old_source.lost_source_fence import topics_left
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.loss_page import loss_markdown
from kafka_dr.domain.loss.loss_plan import LastKnownGroup, LossPlan
from kafka_dr.domain.mirror_maker.mirror_records import Malformed
from kafka_dr.domain.recorder_rows import Kind
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.steps.unplanned.assess_data_loss import AssessDataLoss
from kafka_dr.vocabulary import Entry, Step
from kafka_dr_spark.contract import input as sources

from tests.support.facts import figures_of
from tests.support.lost_source import Recorder, held, seen

STEP = Step.ASSESS_DATA_LOSS
T0 = TopicPartition("orders", 0)
#: Of the target's 80 records: audit was placed at 20, and the sample by which it had been kept saw 40; billing stands
#: behind the pair of 40, and lives.
REREADS = {"audit": 20, "billing": 39}
POLICIES = {"identity": {"policy": "identity"}, "default": {"policy": "default", "separator": "."}}


def remote(policy: str) -> str:
    """The name of orders on the target."""
    return {"identity": "orders", "default": "primary.orders"}[policy]


def assess(bench: Any, attempt: int = 1) -> dict[str, Any]:
    """Execute the step and return its figures."""
    AssessDataLoss(task_id=STEP.value).execute(bench.context(attempt=attempt))
    return figures_of(bench.procedure(), STEP)


def mirrored(bench: Any, count: int, topic: str = "orders") -> None:
    """The target's log: so many different records."""
    tp = TopicPartition(topic, 0)
    bench.clusters["standby"].partitions[topic] = {0: 1}
    bench.clusters["standby"].log_ends[tp] = count
    bench.clusters["standby"].records[tp] = {offset: f"{offset}" for offset in range(count)}


def recorded(recorder: Recorder, name: str = "orders") -> int:
    """Two samples: at the second the source ended at 100, the target at 70; syncs of 50 and 60, and all of the
    source without gaps.
    """
    recorder.sample(
        seen(50, 40, remote=name, replicated=39),
        held("billing", 45),
        (Kind.GROUP, {"group": "billing", "members": 1, "state": "Stable"}),
        groups_read="whole",
    )
    syncs = [
        (Kind.SYNC, {"topic": "orders", "partition": 0, "upstream": at, "downstream": at, "sequence": at})
        for at in (50, 60)
    ]
    pair = (
        Kind.PAIR,
        {"topic": "orders", "partition": 0, "upstream": 40, "downstream": 40, "source_end": 100, "records": 59},
    )
    return recorder.sample(
        seen(100, 70, remote=name, replicated=58),
        held("billing", 90),
        held("audit", 20),
        (Kind.GROUP, {"group": "audit", "members": 0, "state": "Empty"}),
        *syncs,
        pair,
        groups_read="changed",
    )


def row(figures: dict[str, Any]) -> tuple[Any, ...]:
    """Offsets of the only row of loss in the plan."""
    (one,) = figures["plan"]["loss"]
    return one["from_offset"], one["certain_to"], one["possible_to"]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_recorded_and_what_the_target_has_make_the_plan(
    make_lost: Any, recorder: Recorder, policy: str
) -> None:
    """Everything below 80 is replicated, what follows to the last sample's end is certainly lost; one group had gone
    further.
    """
    at, bench = recorded(recorder, remote(policy)), make_lost(naming=POLICIES[policy])
    mirrored(bench, 80, remote(policy))
    bench.workers["standby"].replicated = {T0: 70}
    figures = assess(bench)
    plan = figures["plan"]
    assert row(figures) == (80, 100, None) and all(type(n) is int for n in row(figures)[:2])
    # The first sample ended at 50, the second at 100: the record at 80 was written between the two.
    (lost,) = plan["loss"]
    assert (at - lost["written_since"], lost["written_before"]) == (10_000, at)
    assert plan["topics"] == [["orders", remote(policy), 1, "id-orders"]]
    assert ["no program puts" in note for note in plan["unproven"]] == [True]
    groups = {g["group"]: (g["ahead"], g["active"], g["position_at"]) for g in plan["groups"]}
    assert groups == {"audit": (0, False, at), "billing": (1, True, at)} and figures["active_groups"] == ["billing"]
    assert plan["rereads"] == {"bound": REREADS["billing"], "positions": 2, "unknown": 0, "may_have_moved": 1}
    assert {g["group"]: g["rereads"] for g in plan["groups"]} == REREADS
    assert (plan["inventory"]["certain"], plan["inventory"]["unknown"], plan["inventory"]["groups_ahead"]) == (20, 0, 1)
    found = (figures["source_readable"], figures["stranded"], figures["records_read"])
    assert found == (False, None, {"source": 0, "target": 80})
    assert {
        plan["inventory"][name] for name in ("records", "bytes", "first_at", "last_at", "aborted", "undecided")
    } == {None}
    text = loss_markdown(plan, figures["plan_digest"])
    assert (
        "The recorder's last sample of primary was made at 2026-11-01 12:00:20 UTC, and primary was not observed after"
        " that." in text
    )
    assert "primary was not read: bytes, timestamps" in text
    assert "| orders-0 | 80 | 100 | no bound |" in text and "What cannot be proven:" in text


def rows_of(**bounds: list[int | None]) -> pd.DataFrame:
    """Positions of groups with their bounds, each placed somewhere."""
    told = [(group, bound, 5) for group, those in bounds.items() for bound in those]
    return pd.DataFrame(told, columns=["group", "bound", "target_position"]).astype(
        {"bound": "Int64", "target_position": "Int64"}
    )


def test_the_approver_is_told_the_lower_bound(make_lost: Any, recorder: Recorder) -> None:
    """What holds wherever a group is placed, or what it comes to as it was placed with the assessment; a row without
    a bound or a place lowers nothing.
    """
    recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    plan = LossPlan(**assess(bench)["plan"])
    plan = replace(
        plan,
        groups=tuple(
            replace(LastKnownGroup(**plan.groups[0]), group=name)
            for name in ("lower", "higher", "vague", "refused", "unknown")
        ),
    )
    known = rows_of(lower=[40], higher=[40], vague=[40], refused=[40], unknown=[None])
    translated = rows_of(lower=[3, 7], higher=[50], vague=[3, None], refused=[None], unknown=[9])
    translated.loc[translated["group"] == "refused", "target_position"] = pd.NA
    told = {"bound": 40, "positions": 5, "unknown": 1, "may_have_moved": 0}
    found = with_rereads(plan, told, known, translated)
    result = {group.group: group.rereads for group in found.groups}
    assert result == {"lower": 7, "higher": 40, "vague": 40, "refused": 40, "unknown": 9}
    assert found.rereads == told and with_rereads(plan, told, known[:1], translated[:2]).rereads["bound"] == 7
    assert [group.rereads for group in with_rereads(plan, told, known, None).groups] == [40, 40, 40, 40, None]


def test_the_digest_covers_loss_and_inventory(make_lost: Any, recorder: Recorder) -> None:
    """Another loss is another plan: an approval of the one is none of the other."""
    recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    figures = assess(bench)
    assert figures["plan_digest"] == digest_of(figures["plan"])
    assert figures["plan"]["inventory"]["digest"] == figures["inventory_digest"]
    for change in (
        {"loss": []},
        {"inventory": figures["plan"]["inventory"] | {"bytes": 5}},
        {"inventory": figures["plan"]["inventory"] | {"digest": "x"}},
    ):
        assert digest_of(figures["plan"] | change) != figures["plan_digest"]
    assert bench.procedure().progress.move().plan == figures["plan"]


def test_a_cool_down_that_is_not_waited_for_is_part_of_the_plan(make_lost: Any, recorder: Recorder) -> None:
    """As the run was opened with it: the approver reads it, and the digest covers it."""
    recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    told = {
        "procedure_id": "p-0",
        "outcome": "completed",
        "ended_at": "2026-11-20T12:00:00+00:00",
        "ends_at": "2026-11-20T12:15:00+00:00",
        "acknowledged": "the site burns",
    }
    (opened,) = (entry for entry in bench.entries(Step.OPEN_PROCEDURE) if entry.kind == Entry.OPENED)
    bench.journal.append(
        opened.procedure_id, Step.OPEN_PROCEDURE, Entry.OPENED, opened.epoch, {**opened.payload, "cool_down": told}
    )
    figures = assess(bench)
    assert figures["plan"]["cool_down"] == told
    assert digest_of(figures["plan"] | {"cool_down": None}) != figures["plan_digest"] == digest_of(figures["plan"])
    assert "The starter does not wait until then, because:** the site burns" in loss_markdown(figures["plan"], "d")


def test_a_second_process_assesses_anew_and_leaves_the_first_ones_files_alone(
    make_lost: Any, recorder: Recorder
) -> None:
    """Another epoch has folders of its own; what the journal knew can still be read."""
    recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    first = assess(bench)
    files = {path: path.read_bytes() for path in bench.procedure().artifacts.folder.rglob("*") if path.is_file()}
    mirrored(bench, 90)
    second = assess(bench, attempt=2)
    assert len(set(bench.jobs.given)) == 4 and (row(first)[0], row(second)[0]) == (80, 90)
    assert first["plan_digest"] != second["plan_digest"]
    assert {path: path.read_bytes() for path in files} == files
    assert bench.procedure().artifacts.load(first["loss"])["from_offset"].tolist() == [80]


@pytest.mark.parametrize("policy", POLICIES)
def test_without_any_record_all_is_possibly_lost_and_nothing_certain(make_lost: Any, policy: str) -> None:
    """Only Connect's own offset tells something; the plan says what lacks, and its topics are fenced when the source
    comes back.
    """
    bench = make_lost(recorded=False, naming=POLICIES[policy])
    mirrored(bench, 80, remote(policy))
    bench.workers["standby"].replicated = {T0: 70}
    figures = assess(bench)
    assert row(figures) == (71, None, None) and figures["plan"]["inventory"]["unknown"] == 1
    assert figures["plan"]["groups"] == []
    assert "Clients that the recorder does not record" in [one["kind"] for one in figures["plan"]["clients"]]
    assert (figures["last_sample_at"], figures["source_last_seen_at"]) == (None, None)
    assert "no flight recorder" in figures["plan"]["unproven"][0]
    assert topics_left(bench.procedure()) == ["orders"]
    text = loss_markdown(figures["plan"], "d")
    assert "the upper bound is unknown" in text and "**There was no recorder**" in text
    assert "| Clients that the recorder does not record | unknown | cannot be seen |" in text


def test_the_sample_is_shown_beside_what_saw_the_source_later(
    make_lost: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat that was mirrored after it; the source itself where it can be read. A heartbeat that is none tells
    nothing.
    """
    at = recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    monkeypatch.setattr(last_known, "newest_heartbeats", lambda procedure, seconds: [at - 3000, at + 7000])
    figures = assess(bench)
    assert figures["plan"]["seen"]["heartbeat_at"] == at + 7000
    assert "7 seconds before primary was last observed, by a mirrored heartbeat" in loss_markdown(figures["plan"], "d")

    def malformed(*_: Any) -> list[int]:
        raise Malformed("heartbeat is cut off", "3 bytes", "look")

    monkeypatch.setattr(last_known, "newest_heartbeats", malformed)
    assert assess(bench, attempt=2)["plan"]["seen"]["heartbeat_at"] is None


def test_without_record_worker_and_names_nobody_knows_the_topics(make_lost: Any) -> None:
    """Refused: there is nothing to move clients to."""
    bench = make_lost(recorded=False)
    bench.workers["standby"].away = True
    with pytest.raises(AirflowFailException, match="Which topics the flow mirrors is unknown.*no flight recorder"):
        assess(bench)
    assert bench.kinds(STEP) == [Entry.INTENT, Entry.REFUSAL] and bench.jobs.given == []


def test_what_the_target_lacks_is_named_and_lost_as_a_whole(make_lost: Any, recorder: Recorder) -> None:
    """A topic, and a partition of another, that were never mirrored."""
    recorder.sample(seen(100, 70), seen(30, 0, partition=1), seen(40, 0, "slow"), held("g", 3, "slow"))
    bench = make_lost()
    mirrored(bench, 80)
    bench.workers["standby"].replicated = {}
    figures = assess(bench)
    found = [(one["topic"], one["partition"], one["from_offset"]) for one in figures["plan"]["loss"]]
    assert found == [("orders", 0, 0), ("orders", 1, 0), ("slow", 0, 0)]
    assert "2 partitions are not on the target: orders-1, slow-0" in figures["plan"]["unproven"]
    bounds = sources.load_bounds(bench.jobs.given[0], False)
    assert [bounds[key].target_exists for key in (("orders", 0), ("orders", 1), ("slow", 0))] == [True, False, False]


READABLE = {"state": "refuses_writes", "override": "its disks are failing"}


def test_a_source_that_can_be_read_is(make_lost: Any, recorder: Recorder) -> None:
    """Its own bounds, its own topics: also one that was never mirrored; and not one that it has deleted."""
    recorded(recorder)
    recorder.sample(seen(7, 7, "deleted"), held("billing", 3, "deleted"))
    bench = make_lost(**READABLE)
    source = bench.clusters["primary"]
    source.partitions |= {"orders": {0: 1, 1: 1}, "fresh": {0: 1}}
    source.log_ends |= {T0: 120, TopicPartition("orders", 1): 6, TopicPartition("fresh", 0): 5}
    source.log_starts[T0] = 10
    source.records[T0] = {offset: f"{offset}" for offset in range(10, 120)}
    mirrored(bench, 80)
    at_once = time.time() * 1000 - 1
    figures = assess(bench)
    plan = figures["plan"]
    assert [name for name, *_ in plan["topics"]] == ["fresh", "orders"]
    assert plan["confirmed"]["override"] == READABLE["override"]
    found = {(one["topic"], one["partition"]): (one["from_offset"], one["certain_to"]) for one in plan["loss"]}
    assert found == {("fresh", 0): (0, None), ("orders", 0): (80, 120), ("orders", 1): (0, None)}
    result = {type(one["certain_to"]) for one in plan["loss"]}
    assert result == {int, type(None)}, "offsets are whole numbers also where some are unknown"
    assert plan["seen"]["read_at"] > at_once and "when it was read for this inventory" in loss_markdown(plan, "d")
    assert figures["source_readable"] is True and figures["stranded"] and plan["gone"] == ["deleted"]
    bounds = sources.load_bounds(bench.jobs.given[0], True)
    assert (bounds["orders", 0].source_start, bounds["orders", 0].cut_off) == (10, 120)
    assert "__switchback_probe" not in json.dumps(plan["topics"])


def test_a_partition_of_the_source_without_leader_is_told_by_its_samples(make_lost: Any, recorder: Recorder) -> None:
    """The rest is read to its present end; the note names the partition, and the groups that stand on it."""
    recorded(recorder)
    bench = make_lost(**READABLE)
    source = bench.clusters["primary"]
    source.partitions |= {"orders": {0: None, 1: 1}}
    source.log_ends |= {T0: 999, TopicPartition("orders", 1): 6}
    source.records[TopicPartition("orders", 1)] = {offset: f"{offset}" for offset in range(6)}
    mirrored(bench, 80)
    figures = assess(bench)
    plan = figures["plan"]
    bounds = sources.load_bounds(bench.jobs.given[0], False)
    assert (bounds["orders", 0].cut_off, bounds["orders", 1].cut_off) == (None, 6)
    found = {one["partition"]: (one["from_offset"], one["certain_to"]) for one in plan["loss"]}
    assert found == {0: (80, 100), 1: (0, None)}
    (note,) = [note for note in plan["unproven"] if "no broker leads them" in note]
    assert "1 partition of primary cannot be read" in note and "orders-0" in note and "groups audit, billing" in note
    ends = bench.procedure().artifacts.load(figures["source_ends"])
    assert ends["offset"].tolist() == [100, 6]


def test_a_partition_of_the_target_without_leader_is_waited_for(make_lost: Any, recorder: Recorder) -> None:
    """Clients could not use it after the move; nothing is moved before that is said."""
    recorded(recorder)
    bench = make_lost(**READABLE)
    mirrored(bench, 80)
    bench.clusters["standby"].partitions["orders"] = {0: None}
    with pytest.raises(KafkaUnavailable, match="Partitions of standby have no leader") as raised:
        read_present_facts(bench.procedure())
    assert raised.value.may_pass


def test_a_topic_deleted_before_the_source_was_lost_is_no_part_of_what_moves(
    make_lost: Any, recorder: Recorder
) -> None:
    """Neither its loss, nor its groups, nor its fence, though the target and Connect still have it; the approver
    reads its name.
    """
    recorded(recorder)
    recorder.sample(seen(7, 7, "deleted"), held("billing", 3, "deleted"), held("audit", 3, "deleted"))
    recorder.sample((Kind.TOPIC, {"topic": "deleted", "state": "Gone"}))
    bench = make_lost()
    mirrored(bench, 80)
    mirrored(bench, 7, "deleted")
    bench.workers["standby"].replicated = {T0: 70, TopicPartition("deleted", 0): 6}
    figures = assess(bench)
    plan = figures["plan"]
    assert [name for name, *_ in plan["topics"]] == ["orders"] and row(figures) == (80, 100, None)
    assert plan["gone"] == ["deleted"]
    assert topics_left(bench.procedure()) == ["orders"]
    assert set(bench.procedure().artifacts.load(figures["positions"])["topic"]) == {"orders"}
    assert (
        "1 topics do not move, because they were already deleted on primary. Their copies on standby remain unchanged:"
        " deleted." in loss_markdown(plan, "d")
    )


@pytest.mark.parametrize(("end", "seconds"), [(120, 30), (400_080, 50)])
def test_a_source_that_freezes_while_it_is_read_is_given_up_soon(
    make_lost: Any, recorder: Recorder, end: int, seconds: int
) -> None:
    """Later where more may be stranded there: by what Connect keeps as replicated, 79 here."""
    recorded(recorder)
    bench = make_lost(**READABLE)
    bench.workers["standby"].replicated = {T0: 79}
    bench.clusters["primary"].log_ends[T0] = end
    mirrored(bench, 80)
    procedure = bench.procedure()
    known, source, proven = read_present_facts(procedure)
    assert reading_seconds(known, source) == seconds
    (folder := bench.folder / "given").mkdir()
    assert write_inputs(procedure, folder, known, source, proven)["deadline_seconds"] == seconds


def test_a_source_that_cannot_be_read_after_all_is_done_without(make_lost: Any, recorder: Recorder) -> None:
    """Said to the approver."""
    recorded(recorder)
    bench = make_lost(**READABLE)
    bench.clusters["primary"].away = True
    mirrored(bench, 80)
    figures = assess(bench)
    assert figures["source_readable"] is False and row(figures) == (80, 100, None)
    assert "but the source could not be read" in figures["plan"]["unproven"][0]


def test_a_lost_source_is_never_asked(make_lost: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """No client of it is even made."""
    recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    monkeypatch.delitem(bench.clusters, "primary")
    assert row(assess(bench)) == (80, 100, None)


def test_what_was_recorded_of_another_log_counts_for_nothing(make_lost: Any, recorder: Recorder) -> None:
    """The target's topic was made anew since: nothing proves what it has, and no position can be translated by the
    old one's pairs.
    """
    recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    bench.clusters["standby"].topic_ids["orders"] = "another"
    figures = assess(bench)
    assert row(figures) == (0, None, None)
    assert (
        "1 topics were recreated on the source or the target after they were recorded: orders"
        in figures["plan"]["unproven"]
    )
    assert sources.load_bounds(bench.jobs.given[0], False)["orders", 0].recreated


@pytest.mark.parametrize("source_answered", [True, False])
def test_what_connect_keeps_is_not_on_a_copy_that_the_recorder_saw_made_anew(
    make_lost: Any, recorder: Recorder, source_answered: bool
) -> None:
    """Seen while the source lived, or after it had died: nothing of what Connect had kept before need be there; and
    said so.
    """
    recorded(recorder)
    kind, values = seen(120, 20, replicated=110)
    recorder.sample(
        (
            kind,
            values
            | {"target_topic_id": "another"}
            | ({} if source_answered else {"source_end": None, "source_start": None}),
        ),
        answered=source_answered,
    )
    bench = make_lost()
    mirrored(bench, 20)
    bench.clusters["standby"].topic_ids["orders"] = "another"
    figures = assess(bench)
    assert row(figures) == (0, None, None)
    assert (
        "1 topics were recreated on the source or the target after they were recorded: orders"
        in figures["plan"]["unproven"]
    )
    assert figures["copied_anew"] == ["orders"]
    # What was seen of the new copy places groups.
    assert not sources.load_bounds(bench.jobs.given[0], False)["orders", 0].recreated
    assert figures["floors"]["rows"] == int(source_answered)


def test_only_denials_of_clients_that_hold_the_right_are_opened(make_lost: Any, recorder: Recorder) -> None:
    """Against everybody, and against a principal with a grant; not one against a stranger, nor against reading."""
    recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    grant = AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")
    everybody, app, stranger = (
        AclEntry("topic", "orders", "literal", who, "*", "write", "deny")
        for who in ("User:*", "User:app", "User:other")
    )
    bench.clusters["standby"].acls |= {
        grant,
        everybody,
        app,
        stranger,
        AclEntry("topic", "orders", "literal", "User:app", "*", "read", "deny"),
    }
    assert sorted(assess(bench)["plan"]["opening"]) == sorted(map(str, (everybody, app)))


def test_the_input_says_what_kinds_of_logs_there_are(make_lost: Any, recorder: Recorder) -> None:
    """Compaction, the broker's timestamps and other writers, by the target's settings and rights."""
    recorded(recorder)
    bench = make_lost()
    mirrored(bench, 80)
    bench.clusters["standby"].settings["orders"] = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
    }
    bench.clusters["standby"].acls.add(AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow"))
    assess(bench)
    one = sources.load_bounds(bench.jobs.given[0], False)["orders", 0]
    assert one.target_compacted and one.source_compacted and not one.compare_timestamps and one.other_writer
    assert not one.drained and not one.complete
    assert (one.source_start, one.cut_off, one.target_start, one.boundary) == (0, None, 0, 80)


def test_the_frames_that_are_kept_can_be_read_back(make_lost: Any) -> None:
    """Also where all of them are empty."""
    bench = make_lost(recorded=False)
    mirrored(bench, 80)
    figures, procedure = assess(bench), bench.procedure()
    for name in ("positions", "floors", "syncs", "pairs", "source_ends"):
        assert isinstance(procedure.artifacts.load(figures[name]), pd.DataFrame) and figures[name]["rows"] == 0
    assert figures["bounds"]["rows"] == 1
