"""re_replicate_topics on a site in memory: what is copied again, what is left alone, and what is refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.re_replication.rollback import refuse_past_return, resume_flow
from kafka_dr.config.topology import Flow
from kafka_dr.domain.evidence.summary import summarise_evidence
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import (
    Checkpoint,
    decode_checkpoint,
    decode_offset_sync,
    encode_checkpoint,
)
from kafka_dr.domain.mirror_maker.offset_sync_store import OffsetSyncStore
from kafka_dr.domain.re_replication.plan import re_replication_markdown, re_replication_plan_of
from kafka_dr.domain.re_replication.starts import RESET
from kafka_dr.errors import ApprovalMissing, Contradiction, NotReady, Refusal
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure import find
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.run import Run
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.vocabulary import Step

from tests.plugins.kafka_dr.steps.re_replication.copying_site import CHECKPOINTS, TASKS, CopyingSite
from tests.support.fake_systems import FakeSystems

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
POLICIES = pytest.mark.parametrize("policy", ["default", "identity"])


Maker = Callable[..., CopyingSite]


@pytest.fixture
def make(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """Makes a site, of which runs read the topology and use the clients."""

    def made(policy: str, **params: Any) -> CopyingSite:
        site = CopyingSite(quick_path, policy, **params)

        def by_hook(systems: FakeSystems, flow: Flow) -> FlowConnectors:
            return FlowConnectors(flow, systems.topology.names, site.worker)

        monkeypatch.setattr(FakeSystems, "_by_hook", by_hook)
        monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(site.topology))
        monkeypatch.setattr(find, "Connections", lambda: site.connections)
        return site

    return made


def damaged(make: Maker, policy: str = "default", **params: Any) -> CopyingSite:
    """A site whose standby lacks records of `orders`, and has another topic."""
    site = make(policy, **params)
    site.write("orders", 10)
    site.write("other", 6, first=100)
    site.worker.leaves_out = frozenset({b"0", b"4"})
    site.worker.copy()
    site.worker.leaves_out = frozenset()
    return site


@POLICIES
def test_each_record_is_there_once_after_a_deletion(make: Maker, policy: str) -> None:
    """Record 0 too; the topic has its settings again, groups their exact places, other topics their offsets."""
    site = damaged(make, policy, delete_target_topics=True)
    remote = site.remote("orders")
    site.target.settings[remote] = {"retention.ms": "7"}
    site.commit("primary", "readers", {("orders", 0): 4})
    site.commit("standby", "readers", {(remote, 0): 2, (site.remote("other"), 0): 3})
    other = list(site.target.values(site.remote("other")))
    outcomes = site.whole(site.begin())
    assert site.target.values(remote) == site.source.values("orders")
    assert site.target.deleted == [remote] and site.target.settings[remote] == {"retention.ms": "7"}
    assert site.positions("standby", "readers") == {(remote, 0): 4, (site.remote("other"), 0): 3}
    assert site.worker.offsets_set["p.source"] == {ORDERS: None}
    assert site.worker.kept["p.source"][OTHER] == 5 and site.target.values(site.remote("other")) == other
    assert outcomes[Step.SEED_REPLICATION].untouched == 1
    assert site.worker.states == {"p.source": "RUNNING", "p.checkpoint": "RUNNING"}


@POLICIES
def test_a_kept_topic_holds_the_records_twice(make: Maker, policy: str) -> None:
    """The new copies stand behind the older ones, and groups go on among the new ones."""
    site = damaged(make, policy)
    remote = site.remote("orders")
    site.commit("primary", "readers", {("orders", 0): 4})
    site.commit("standby", "readers", {(remote, 0): 2})
    older = list(site.target.values(remote))
    site.whole(site.begin())
    assert site.target.values(remote) == [*older, *site.source.values("orders")]
    assert site.target.deleted == []
    assert site.positions("standby", "readers") == {(remote, 0): len(older) + 4}


def test_a_log_that_retention_has_cut(make: Maker) -> None:
    """The offset before the log start is stored; what only the target held is exported."""
    site = damaged(make, delete_target_topics=True)
    site.source.cut("orders", 6)
    outcomes = site.whole(site.begin())
    assert site.worker.offsets_set["p.source"] == {ORDERS: 5}
    assert site.target.values("primary.orders") == [b"6", b"7", b"8", b"9"]
    exported = outcomes[Step.EXPORT_TARGET_TOPICS]
    assert exported.target_only == 4
    rows = [row for receipt in exported.records for row in site.procedure("a1").artifacts.load(receipt)["value"]]
    assert rows == [b"1", b"2", b"3", b"5"]


def test_topics_are_not_deleted_with_records_that_no_export_would_hold_whole(make: Maker) -> None:
    """Refused by the plan, whether retention took them from the source or another client wrote them."""
    site = damaged(make, delete_target_topics=True)
    exports_without_values(site)
    site.source.cut("orders", 6)
    with pytest.raises(NotReady, match="Topics to delete hold records that no export would hold whole"):
        site.whole(site.begin())
    assert site.target.deleted == [] and site.worker.states["p.source"] == "RUNNING"


def test_without_a_deletion_they_are_exported_without_values(make: Maker) -> None:
    """They stay on the target; the outcome says what the files lack."""
    site = damaged(make)
    exports_without_values(site)
    site.source.cut("orders", 6)
    exported = site.whole(site.begin())[Step.EXPORT_TARGET_TOPICS]
    rows = [row for receipt in exported.records for row in site.procedure("a1").artifacts.load(receipt)["value"]]
    assert exported.target_only == 4 and rows == [None] * 4
    assert exported.exports == {"values": "omit", "keys": "keep"}


def exports_without_values(site: CopyingSite) -> None:
    """Have the topology leave values out of exports."""
    stated = json.loads(site.topology.read_text(encoding="utf-8"))
    site.topology.write_text(json.dumps(stated | {"exports": {"values": "omit"}}), encoding="utf-8")


@pytest.mark.parametrize("params", [{"from_offset": {"orders": 7}}, {"from_offset": {"orders:0": 7, "orders": 2}}])
def test_from_an_offset(make: Maker, params: dict[str, Any]) -> None:
    """Copied from there on; the plan says so."""
    site = damaged(make, delete_target_topics=True, **params)
    run = site.begin()
    site.whole(run)
    assert site.target.values("primary.orders") == [b"7", b"8", b"9"]
    assert site.worker.offsets_set["p.source"] == {ORDERS: 6}


def test_a_cancelled_task_repeats_no_record_of_another_topic(make: Maker) -> None:
    """Connect had flushed record 2 of six: the partition goes on behind its last copy, which is said."""
    site = damaged(make, delete_target_topics=True)
    site.worker.kept["p.source"][OTHER] = 2
    outcomes = site.whole(site.begin())
    assert outcomes[Step.SEED_REPLICATION].advanced == ["other-0"]
    assert site.target.values("primary.other") == site.source.values("other")


def test_a_group_that_only_the_target_knows_goes_on_at_its_record(make: Maker) -> None:
    """Its next record among the older copies was 5; it is the sixth of the new ones."""
    site = damaged(make, delete_target_topics=True)
    site.commit("standby", "local", {("primary.orders", 0): 3})
    run = site.begin()
    plan = site.whole(run, Step.PLAN_RE_REPLICATION)[Step.PLAN_RE_REPLICATION]
    assert run.artifacts.load_json(plan.plan_file)["without_source"] == ["local"]
    assert site.target.values("primary.orders")[3] == b"5"
    for step in list(TASKS)[1:]:
        site.step(run, step)
    assert site.positions("standby", "local") == {("primary.orders", 0): 5}


def test_mirror_maker_forgets_the_older_copies(make: Maker) -> None:
    """By its own rules it translates each position to the new copy, and its checkpoints are those of the new ones."""
    site = damaged(make, delete_target_topics=True)
    site.commit("primary", "readers", {("orders", 0): 10})
    site.commit("standby", "readers", {("primary.orders", 0): 8})
    site.whole(site.begin())
    store = OffsetSyncStore()
    for sync in (decode_offset_sync(*record) for record in site.syncs):
        if sync.topic == "orders":
            store.update(sync)
    store.finish_loading()
    assert store.translate(10) == 10
    assert [store.translate(position) for position in range(10)] <= list(range(10))
    newest = decode_checkpoint(*site.target.internal[CHECKPOINTS][-1])
    assert newest[:5] == ("readers", "primary.orders", 0, 10, 10)


def test_copies_that_mirror_maker_repeats_are_counted(make: Maker) -> None:
    """A task that was restarted: each record is there, and the repeats are told."""
    site = damaged(make, delete_target_topics=True)
    site.worker.repeats = 3
    assert site.whole(site.begin())[Step.VERIFY_COPIES].repeats == 3


def test_records_of_another_writer_are_named(make: Maker) -> None:
    """They are no repeats, and stop no run: no later try could remove them."""
    site = damaged(make, delete_target_topics=True)
    site.commit("primary", "readers", {("orders", 0): 10})
    site.commit("standby", "readers", {("primary.orders", 0): 1})
    run = site.begin()
    site.whole(run, Step.SEED_REPLICATION)
    site.target.append("primary.orders", 0, b"foreign")
    for step in (Step.START_REPLICATION, Step.VERIFY_COPIES, Step.PLACE_TARGET_GROUPS):
        outcome = site.step(run, step)
        if step == Step.VERIFY_COPIES:
            assert (outcome.records, outcome.repeats) == (10, 0)
            assert outcome.foreign == ["primary.orders-0: 1 record, the first at offset 0"]
    assert site.positions("standby", "readers") == {("primary.orders", 0): 11}
    (advice,) = summarise_evidence(closed(site, run)).to_do
    assert "Another client wrote" in advice and "offset 0" in advice


def test_a_record_that_was_not_copied_is_named(make: Maker) -> None:
    """The comparison reads every record."""
    site = damaged(make, delete_target_topics=True)
    run = site.begin()
    site.whole(run, Step.SEED_REPLICATION)
    site.worker.leaves_out = frozenset({b"3"})
    site.step(run, Step.START_REPLICATION)
    with pytest.raises(Contradiction, match="A record of primary has no copy on standby") as told:
        site.step(run, Step.VERIFY_COPIES)
    assert "orders-0: offset 3" in told.value.seen


@pytest.mark.parametrize("deleted", [4, 10])
def test_copies_that_the_targets_retention_deletes_are_counted(make: Maker, deleted: int) -> None:
    """They are not called missing; a group whose record is gone begins at the log start."""
    site = damaged(make, delete_target_topics=True)
    site.commit("primary", "readers", {("orders", 0): 2})
    site.commit("standby", "readers", {("primary.orders", 0): 1})
    run = site.begin()
    site.whole(run, Step.START_REPLICATION)
    site.target.cut("primary.orders", deleted)
    verified = site.step(run, Step.VERIFY_COPIES)
    assert (verified.deleted, verified.records) == (deleted, 10 - deleted)
    site.step(run, Step.PLACE_TARGET_GROUPS)
    assert site.positions("standby", "readers") == {("primary.orders", 0): deleted}


@pytest.mark.parametrize(("deleted", "written"), [(4, b""), (4, b"foreign"), (10, b"")])
def test_copies_of_records_that_the_source_has_deleted_are_no_other_writers(
    make: Maker, deleted: int, written: bytes
) -> None:
    """They are neither foreign nor repeats; a group that has not read them begins with them."""
    site = damaged(make, delete_target_topics=True)
    site.commit("primary", "late", {("orders", 0): 2})
    site.commit("primary", "readers", {("orders", 0): 6})
    run = site.begin()
    site.whole(run, Step.START_REPLICATION)
    if written:
        site.target.append("primary.orders", 0, written)
    site.source.cut("orders", deleted)
    verified = site.step(run, Step.VERIFY_COPIES)
    assert (verified.deleted, verified.records, verified.repeats) == (0, 10 - deleted, 0)
    assert verified.foreign == (["primary.orders-0: 1 record, the first at offset 10"] if written else [])


def test_a_second_try_of_each_step_changes_nothing_more(make: Maker) -> None:
    """Each step is run twice: the topic is deleted once, and each record is there once."""
    site = damaged(make, delete_target_topics=True)
    site.commit("primary", "readers", {("orders", 0): 4})
    site.commit("standby", "readers", {("primary.orders", 0): 2})
    run = site.begin()
    for step in site.whole(run, Step.PLAN_RE_REPLICATION):
        site.step(run, step)
    for step in (Step.APPROVE_RE_REPLICATION, Step.EXPORT_TARGET_TOPICS, Step.STOP_MIRROR_MAKER):
        site.step(run, step)
        site.step(run, step)
    for step in (Step.RECREATE_TARGET_TOPICS, Step.SEED_REPLICATION):
        site.step(run, step)
        site.step(run, step)
    for step in (Step.START_REPLICATION, Step.VERIFY_COPIES, Step.PLACE_TARGET_GROUPS):
        site.step(run, step)
        site.step(run, step)
    assert site.target.deleted == ["primary.orders"]
    assert site.target.values("primary.orders") == site.source.values("orders")
    assert site.positions("standby", "readers") == {("primary.orders", 0): 4}


def refused(site: CopyingSite, words: str) -> str:
    """The plan is refused with these words, and nothing has changed; return what was seen."""
    before = {tp: dict(log) for tp, log in site.target.logs.items()}
    with pytest.raises(NotReady, match=words) as told:
        site.step(site.begin(), Step.PLAN_RE_REPLICATION)
    assert site.target.logs == before and site.worker.asked == [] and site.worker.offsets_set == {}
    return told.value.seen


def test_an_unknown_topic_is_refused_with_what_the_flow_mirrors(make: Maker) -> None:
    """`orders.` is no pattern for `orders`."""
    assert "the flow mirrors orders, other" in refused(damaged(make, topics="orders."), "matches no topic")


def test_compacted_topics_are_refused_unless_the_run_says_so(make: Maker) -> None:
    """Compaction on either cluster counts."""
    site = damaged(make, delete_target_topics=True)
    site.target.settings["primary.orders"] = {"cleanup.policy": "compact"}
    assert "orders" in refused(site, "Compacted topics are not copied again")
    site.journal.release_lease("primary+standby", "re_replicate_topics-a1", 1, "refused")
    site.whole(site.begin(include_compacted=True))
    assert site.target.values("primary.orders") == site.source.values("orders")


@pytest.mark.parametrize("reads", ["primary.orders", "primary.other"])
def test_a_group_that_reads_the_topic_is_refused(make: Maker, reads: str) -> None:
    """By its assignment, or by a position there; a group that is active elsewhere alone is not."""
    site = damaged(make, delete_target_topics=True)
    site.target.reading["busy"] = reads
    if reads == "primary.orders":
        assert "busy (1 members)" in refused(site, "Groups on standby have members")
        return
    site.whole(site.begin())
    assert site.target.values("primary.orders") == site.source.values("orders")


def test_an_active_group_with_a_position_is_refused(make: Maker) -> None:
    """Its position would be deleted, and could not be committed again."""
    site = damaged(make, delete_target_topics=True)
    site.commit("standby", "busy", {("primary.orders", 0): 2})
    site.target.reading["busy"] = "primary.other"
    refused(site, "Groups on standby have members")


def test_records_of_clients_on_the_target_are_refused_under_identity_naming(make: Maker) -> None:
    """The source never had them."""
    site = damaged(make, "identity", delete_target_topics=True)
    site.target.append("orders", 0, b"of a client")
    assert "orders-0: 1 records" in refused(site, "holds records of the chosen topics that primary lacks")


def test_records_of_clients_on_the_target_are_exported_under_other_naming(make: Maker) -> None:
    """No client writes to a prefixed copy; whoever did, the approver sees the record."""
    site = damaged(make, delete_target_topics=True)
    site.target.append("primary.orders", 0, b"of a client")
    assert site.whole(site.begin())[Step.EXPORT_TARGET_TOPICS].target_only == 1


def test_a_flow_that_does_not_run_is_refused(make: Maker) -> None:
    """Whoever stopped it has a reason."""
    site = damaged(make)
    site.worker.states["p.source"] = "STOPPED"
    refused(site, "does not run")


def test_a_worker_without_an_api_for_offsets_is_refused(make: Maker) -> None:
    """With its version, and what to do."""
    site = damaged(make)
    site.worker.is_old, site.worker.version = True, "2.8.2"
    assert "2.8.2" in refused(site, "The offsets of this flow cannot be set")


def beginning_at_the_end(make: Maker, **params: Any) -> CopyingSite:
    """A damaged site whose connector has `latest` by now, with a topic of which nothing was ever copied."""
    site = damaged(make, **params)
    site.worker.settings[RESET] = "latest"
    site.write("aged", 4, first=200)
    site.worker.kept["p.source"].pop(TopicPartition("aged", 0), None)
    return site


@pytest.mark.parametrize("former", ["latest", None])
def test_a_connector_that_begins_at_the_end_begins_at_record_0_meanwhile(make: Maker, former: str | None) -> None:
    """Its setting is as before afterwards; nothing else is copied from its first record."""
    site = beginning_at_the_end(make, delete_target_topics=True)
    if former is None:
        site.worker.settings = {"topics": site.worker.settings["topics"], "consumer.auto.offset.reset": "latest"}
    run = site.begin()
    outcomes = site.whole(run, Step.VERIFY_COPIES)
    assert site.worker.config("p.source")[RESET] == "earliest"
    assert outcomes[Step.SEED_REPLICATION].held == ["aged-0"]
    site.write("aged", 1, first=204)
    placed = site.step(run, Step.PLACE_TARGET_GROUPS)
    assert placed.reset_as_before == ["p.source"] and site.worker.config("p.source").get(RESET) == former
    assert site.target.values("primary.orders") == site.source.values("orders")
    assert site.target.values("primary.aged") == [b"204"]
    assert site.worker.states == {"p.source": "RUNNING", "p.checkpoint": "RUNNING"}
    asked = len(site.worker.asked)
    site.step(run, Step.PLACE_TARGET_GROUPS)
    assert [act for act in site.worker.asked[asked:] if act[1] == "p.source"] == []


def test_the_approver_sees_that_a_setting_changes_meanwhile(make: Maker) -> None:
    """With the connector, and the partitions that go on at their end."""
    site = beginning_at_the_end(make)
    planned = site.step(site.begin(), Step.PLAN_RE_REPLICATION)
    plan = re_replication_plan_of(site.procedure("a1").artifacts.load_json(planned.plan_file))
    assert plan.digest == planned.plan_digest and plan.without_offset == (("aged", 0, 4),)
    page = re_replication_markdown(plan)
    assert "p.source begins partitions without an offset at their end" in page
    assert "only from this end on: aged-0 from 4." in page


def test_a_log_that_was_cut_needs_no_other_setting(make: Maker) -> None:
    """An offset before its start can be stored."""
    site = beginning_at_the_end(make, delete_target_topics=True)
    site.source.cut("orders", 2)
    outcomes = site.whole(site.begin())
    assert outcomes[Step.SEED_REPLICATION].held is None and outcomes[Step.PLACE_TARGET_GROUPS].reset_as_before is None
    assert site.target.values("primary.orders") == site.source.values("orders")
    assert ("change", "p.source") not in site.worker.asked


def test_checkpoints_that_ran_meanwhile_leave_no_group_beyond_its_place(make: Maker) -> None:
    """Without a Connect worker the checkpoint connector runs while topics are copied, with its older history."""
    site = damaged(make, hooked=True, delete_target_topics=True)
    remote = ("primary.orders", 0)
    for group in ("ahead", "behind"):
        site.commit("primary", group, {("orders", 0): 4})
        site.target.internal[CHECKPOINTS].append(encode_checkpoint(Checkpoint(group, *remote, 4, 3)))
    run = site.begin()
    site.whole(run, Step.VERIFY_COPIES)
    for group, position in (("ahead", 9), ("behind", 2), ("unknown", 9)):
        site.commit("standby", group, {remote: position})
    asked = len(site.worker.asked)
    site.step(run, Step.PLACE_TARGET_GROUPS)
    assert [site.positions("standby", group)[remote] for group in ("ahead", "behind", "unknown")] == [4, 2, 0]
    assert [act for act, name in site.worker.asked[asked:] if name == "p.source"] == ["stop"]
    assert site.worker.asked[-1] == ("resume", "p.checkpoint")
    assert site.target.values("primary.orders") == site.source.values("orders")


def test_a_file_that_only_people_change_is_refused_for_offset_0(make: Maker) -> None:
    """With what to edit."""
    site = damaged(make, hooked=True)
    site.worker.settings[RESET] = "latest"
    assert "is not earliest" in refused(site, "Copying cannot begin at offset 0, because MirrorMaker 2 begins")


def test_a_flow_that_its_hook_does_not_start_is_refused(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the hook's answer."""
    site = damaged(make, hooked=True)
    monkeypatch.setattr(FlowConnectors, "can_resume", lambda self: False)
    assert "its stop hook does not start it" in refused(site, "The offsets of this flow cannot be set")


def test_a_setting_that_was_changed_since_the_plan_is_not_overwritten(make: Maker) -> None:
    """Nor is the flow resumed if somebody sets the former value meanwhile."""
    site = beginning_at_the_end(make)
    run = site.begin()
    site.whole(run, Step.RECREATE_TARGET_TOPICS)
    site.worker.settings[RESET] = "none"
    with pytest.raises(Contradiction, match="was changed after the plan was made"):
        site.step(run, Step.SEED_REPLICATION)
    site.worker.settings[RESET] = "latest"
    site.step(run, Step.SEED_REPLICATION)
    site.worker.configs["p.source"][RESET] = "latest"
    with pytest.raises(Contradiction, match="is no longer earliest"):
        site.step(run, Step.START_REPLICATION)


@pytest.mark.parametrize("until", [Step.STOP_MIRROR_MAKER, Step.SEED_REPLICATION])
def test_a_rollback_gives_a_connector_its_setting_again(make: Maker, until: Step) -> None:
    """What clients wrote since the stop is copied, older records are not; a second rollback changes nothing."""
    site = beginning_at_the_end(make)
    older = list(site.target.values("primary.orders"))
    run = site.begin()
    site.whole(run, until)
    site.write("aged", 1, first=204)
    assert resume_flow(run).touched and site.worker.config("p.source")[RESET] == "latest"
    assert site.target.values("primary.aged") == [b"204"]
    asked = len(site.worker.asked)
    resume_flow(run)
    assert {act for act, _ in site.worker.asked[asked:]} == {"resume"}
    assert site.target.values("primary.orders") == older and site.worker.kept["p.source"][ORDERS] == 9


def test_nothing_is_stopped_or_deleted_without_an_approval(make: Maker) -> None:
    """Each act asks for it."""
    site = damaged(make, delete_target_topics=True)
    run = site.begin()
    site.whole(run, Step.PLAN_RE_REPLICATION)
    for step in (Step.EXPORT_TARGET_TOPICS, Step.STOP_MIRROR_MAKER, Step.RECREATE_TARGET_TOPICS):
        with pytest.raises(ApprovalMissing):
            site.step(run, step)
    assert site.worker.asked == [] and site.target.deleted == []


def test_a_topic_that_changed_after_the_export_is_not_deleted(make: Maker) -> None:
    """It has another id, or other settings."""
    site = damaged(make, delete_target_topics=True)
    run = site.begin()
    site.whole(run, Step.STOP_MIRROR_MAKER)
    site.target.topic_ids["primary.orders"] = "another"
    with pytest.raises(Contradiction, match="Target topics were changed after they were exported"):
        site.step(run, Step.RECREATE_TARGET_TOPICS)
    assert site.target.deleted == []


@pytest.mark.parametrize("until", [Step.STOP_MIRROR_MAKER, Step.SEED_REPLICATION])
def test_a_rollback_resumes_the_flow_as_it_was(make: Maker, until: Step) -> None:
    """Offsets that the run set are set back, so that nothing is copied twice."""
    site = damaged(make)
    older = list(site.target.values("primary.orders"))
    run = site.begin()
    site.whole(run, until)
    refuse_past_return(run)
    assert resume_flow(run).touched
    assert site.worker.states == {"p.source": "RUNNING", "p.checkpoint": "RUNNING"}
    assert site.target.values("primary.orders") == older


@pytest.mark.parametrize("deletes", [True, False])
def test_there_is_no_way_back_once_topics_are_deleted_or_copied(make: Maker, deletes: bool) -> None:
    """Only forward."""
    site = damaged(make, delete_target_topics=deletes)
    run = site.begin()
    site.whole(run, Step.RECREATE_TARGET_TOPICS if deletes else Step.START_REPLICATION)
    if not deletes:
        site.done(run, Step.START_REPLICATION)
    with pytest.raises(Refusal, match="has passed the point of no return"):
        refuse_past_return(run)


def closed(site: CopyingSite, run: Run) -> dict[str, Any]:
    """Close a run, and return its evidence; the task is red unless the run completed."""
    with contextlib.suppress(AirflowFailException):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).run_once(run, site.context(run.identity.run_id))
    return json.loads((run.artifacts.folder / "evidence.json").read_text(encoding="utf-8"))


def test_the_evidence_says_what_was_copied(make: Maker) -> None:
    """Steps in the DAG's order, three sentences, nothing to do; the lease is free."""
    site = damaged(make, delete_target_topics=True)
    run = site.begin()
    site.whole(run)
    evidence = closed(site, run)
    assert evidence["outcome"] == "completed"
    assert [step["id"] for step in evidence["steps"]] == [Step.OPEN_PROCEDURE, *TASKS]
    summary = summarise_evidence(evidence)
    assert summary.sentences[0] == "Every record of orders was copied from primary to standby again."
    assert summary.sentences[2].startswith("10 records of 1 partition were compared with their copies")
    assert summary.to_do == ["Nothing."]
    assert site.journal.lease("primary+standby").released_at is not None


def test_a_run_that_stopped_behind_the_deletion_holds_the_lease(make: Maker) -> None:
    """No failover begins while the target lacks records."""
    site = damaged(make, delete_target_topics=True)
    run = site.begin()
    site.whole(run, Step.RECREATE_TARGET_TOPICS)
    assert closed(site, run)["outcome"] == "failed"
    assert site.journal.lease("primary+standby").released_at is None


def test_a_refused_run_has_touched_nothing(make: Maker) -> None:
    """Its evidence says so."""
    site = damaged(make, topics="nothing")
    run = site.begin()
    with pytest.raises(NotReady):
        site.step(run, Step.PLAN_RE_REPLICATION)
    record_fact(run.authority, Step.RETURN_TO_SOURCE, resume_flow(run))
    assert closed(site, run)["outcome"] == "refused"
