"""Fencing a source that may be out of reach: what can be is fenced, the rest is armed, and nothing is called
fenced that is not.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.fencing import acl_fence as fencing
from kafka_dr.actions.fencing.acl_fence import added_entries
from kafka_dr.actions.old_source import lost_source_fence as fencing_source
from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.domain.fencing.armed_fence import armed_fences, watched_sources
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.errors import DeadlinePassed, FenceNotProven, HookUnavailable, KafkaUnavailable
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.hooks.site.fence import FenceAnswer
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.unplanned import fence_source as fence_source_step
from kafka_dr.steps.unplanned.fence_source import FenceSource
from kafka_dr.vocabulary import PROBE_TOPIC, Entry, Step

from tests.support.fake_systems import FakeSystems

STEP = Step.FENCE_SOURCE
DENIALS = [
    f"deny User:app write topic literal '{PROBE_TOPIC}' from *",
    "deny User:app write topic literal 'orders' from *",
]


def fence(bench: Any, attempt: int = 1) -> dict[str, Any]:
    """Execute the step and return its figures."""
    FenceSource(task_id=STEP.value).execute(bench.context(attempt=attempt))
    return bench.entries(STEP)[-1].payload


def denied(bench: Any) -> list[str]:
    """Denials on the source."""
    return sorted(str(e) for e in bench.clusters["primary"].acls if e.permission == "deny")


def armed(bench: Any) -> list[str]:
    """Procedures whose source is armed."""
    return [one.procedure_id for one in armed_fences(telling_entries(bench.journal))]


@pytest.fixture
def hooked(make_bench: Any) -> Any:
    """A topology with a fence hook."""
    return make_bench(fence_hook={"connection": "net"})


def test_a_source_that_answers_is_fenced_as_a_planned_one(bench: Any) -> None:
    """The same entries, the same intent, the same proof; nothing is armed."""
    procedure = bench.lost()
    bench.clusters["primary"].away = False
    figures = fence(bench)
    found = (figures["fenced"], figures["answer"], figures["brokers_refusing"], figures["acl_entries_added"])
    assert found == ("by acl", None, [1], 2)
    assert figures["fenced_at"] and figures["approval"]["by"] == "bob"
    assert denied(bench) == DENIALS == sorted(str(e) for e in added_entries(procedure)) and armed(bench) == []


def test_a_source_that_does_not_answer_is_armed(bench: Any) -> None:
    """The record names pair and topics, and is there before the outcome."""
    procedure = bench.lost()
    figures = fence(bench)
    assert (figures["fenced"], figures["answer"], figures["topics"]) == ("armed", None, 1)
    assert "fenced_at" not in figures
    (one,) = armed_fences(telling_entries(bench.journal))
    found = (one.procedure_id, one.source, one.target, one.topics, one.since.isoformat())
    assert found == (procedure.id, "primary", "standby", ("orders",), figures["armed_at"])
    assert denied(bench) == []


@pytest.mark.parametrize(("state", "seconds"), [("lost", 1.0), ("slow", 5.0)])
def test_a_source_that_was_found_lost_is_hardly_waited_for(
    bench: Any, monkeypatch: pytest.MonkeyPatch, state: str, seconds: float
) -> None:
    """Clients stand still meanwhile; one that is back and slow is the watcher's."""
    procedure, waited = bench.lost(), []
    bench.done(procedure, Step.CONFIRM_SOURCE_LOST, state=state, override=None)
    brokers = bench.clusters["primary"].brokers
    monkeypatch.setattr(
        bench.clusters["primary"], "brokers", lambda **given: waited.append(given["timeout"]) or brokers(**given)
    )
    assert fence(bench)["fenced"] == "armed" and waited == [seconds]


def test_without_the_inventorys_approval_nothing_is_done(bench: Any) -> None:
    """Neither fenced nor armed: a window in which both sides write was approved by nobody."""
    bench.lost()
    bench.api.answers.clear()
    with pytest.raises(AirflowFailException, match="never answered"):
        fence(bench)
    assert armed(bench) == [] and denied(bench) == []


def test_begun_again_it_looks_again(bench: Any) -> None:
    """Armed twice is armed since the first time; a source that is back at the second try is fenced, and armed no
    more.
    """
    bench.lost()
    since = fence(bench)["armed_at"]
    assert fence(bench, attempt=2)["armed_at"] == since and len(armed(bench)) == 1
    bench.clusters["primary"].away = False
    assert fence(bench, attempt=3)["fenced"] == "by acl" and armed(bench) == []


def test_a_source_that_dies_in_the_middle_is_armed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered, and then did not: what it took of the fence counts for nothing."""
    bench.lost()
    source = bench.clusters["primary"]
    source.away = False

    def dying(procedure: Any, step: str, scope: Any) -> Any:
        source.away = True
        raise KafkaUnavailable("adding ACL entries failed", "no answer in time")

    monkeypatch.setattr("kafka_dr.actions.fencing.acl_fence.add_fence", dying)
    assert fence(bench)["fenced"] == "armed" and len(armed(bench)) == 1


@pytest.mark.parametrize("breaks", ["takes no entries", "lets the probe in"])
def test_a_working_source_that_lets_clients_in_is_refused(
    bench: Any, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    """Both sides would accept writes: that was not approved, and no watcher could change it."""
    monkeypatch.setattr(fencing_source, "_COMING_BACK_SECONDS", 0.0)
    bench.lost()
    bench.clusters["primary"].away = False
    if breaks == "takes no entries":
        bench.clusters["primary"].takes_acls = False
    else:
        bench.probe_answers[0] = WriteAccepted(1, 1)
    with pytest.raises(AirflowFailException, match="may still act|brokers did not refuse the probe's write"):
        fence(bench)
    assert armed(bench) == [] and Entry.OUTCOME not in bench.kinds(STEP)


@pytest.mark.parametrize(("state", "again"), [("lost", True), ("slow", False)])
def test_brokers_that_have_just_come_back_are_given_a_moment(
    bench: Any, monkeypatch: pytest.MonkeyPatch, state: str, again: bool
) -> None:
    """They lead nothing yet: of a source that was found lost that is no refusal. One that answered all the time is
    refused at once.
    """
    procedure = bench.lost()
    bench.done(procedure, Step.CONFIRM_SOURCE_LOST, state=state, override=None)
    bench.clusters["primary"].away = False
    real, tries = fencing.probe_partitions, []

    def without_leaders(cluster: Any, topic: str) -> Any:
        tries.append(cluster)
        if len(tries) == 1:
            raise FenceNotProven("Some brokers lead no partition of the probe's topic", "brokers [1]")
        return real(cluster, topic)

    monkeypatch.setattr(fencing, "probe_partitions", without_leaders)
    if again:
        assert fence(bench)["fenced"] == "by acl" and len(tries) > 1
    else:
        with pytest.raises(AirflowFailException, match="lead no partition"):
            fence(bench)
        assert len(tries) == 1


def test_a_source_that_died_before_its_proof_is_armed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last answer was no proof, and by now it is gone."""
    bench.lost()
    source = bench.clusters["primary"]
    source.away = False

    def gone(*_: Any) -> Any:
        source.away = True
        raise DeadlinePassed("The fence on every broker: not within 60 s", "broker 1 took the probe's write")

    monkeypatch.setattr("kafka_dr.actions.fencing.acl_fence.refused_on_every_broker", gone)
    assert fence(bench)["fenced"] == "armed"


@pytest.mark.parametrize("dies", [True, False])
def test_a_source_that_hangs_in_the_middle_keeps_nobody(
    bench: Any, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """It answered, and then its ACLs did not come: armed if it is gone by now, refused if it still answers. What
    hung does nothing any more.
    """
    bench.lost()
    source, thaws, ended = bench.clusters["primary"], threading.Event(), threading.Event()
    source.away, rules = False, fencing.source_rules

    def frozen(procedure: Any) -> Any:
        if isinstance(procedure.authority, fencing_source.TimedFenceAttempt) and not thaws.is_set():
            source.away = dies
            thaws.wait(60)
            source.away = False
        return rules(procedure)

    real = fencing_source.fence_by_acl

    def hanging(*given: Any) -> Any:
        try:
            return real(*given)
        finally:
            ended.set()

    monkeypatch.setattr(fencing, "source_rules", frozen)
    monkeypatch.setattr(fencing_source, "fence_by_acl", hanging)
    monkeypatch.setattr(fence_source_step, "_FENCE_SECONDS", 0.2)
    if dies:
        assert fence(bench)["fenced"] == "armed"
    else:
        with pytest.raises(AirflowFailException, match="answered and was not fenced within 0 s"):
            fence(bench)
    before = bench.entries(STEP)
    thaws.set()
    assert ended.wait(60) and bench.entries(STEP) == before and denied(bench) == [] and len(armed(bench)) == dies


def test_what_hung_in_the_middle_of_an_act_is_undone_once_the_source_was_given_back(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries arrive after the return: they would keep clients from their source."""
    bench.lost()
    source, thaws, ended = bench.clusters["primary"], threading.Event(), threading.Event()
    source.away = False
    original = FakeSystems.with_own_clients

    class Frozen:
        """Adds when it thaws."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def add(self, entries: Any) -> None:
            source.away = True
            thaws.wait(60)
            self.inner.add(entries)

        def remove(self, entries: Any) -> None:
            self.inner.remove(entries)
            ended.set()

    def of_the_attempt(systems: FakeSystems, *request: Any) -> FakeSystems:
        made = original(systems, *request)
        if not request:
            made._acls["primary"] = Frozen(made.source_acls)
        return made

    monkeypatch.setattr(FakeSystems, "with_own_clients", of_the_attempt)
    monkeypatch.setattr(fence_source_step, "_FENCE_SECONDS", 0.2)
    assert fence(bench)["fenced"] == "armed"
    source.away = False
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
    thaws.set()
    assert ended.wait(60) and denied(bench) == []


def test_without_an_authorizer_no_acl_is_called_a_fence(bench: Any) -> None:
    """Nothing could be added, and it works: clients would write on both sides, which no watcher could change."""
    bench.lost()
    bench.clusters["primary"].away, bench.clusters["primary"].authorizer = False, False
    with pytest.raises(AirflowFailException, match="answers and has no authorizer"):
        fence(bench)
    assert not any("arms_fence" in e.payload for e in bench.entries("fence_source"))


def test_what_a_living_source_accepted_since_the_inventory_is_listed(bench: Any) -> None:
    """While people decided: it was no part of what they saw."""
    procedure = bench.lost(known_end=4)
    bench.clusters["primary"].away = False
    figures = fence(bench)
    rows = procedure.artifacts.load(figures["accepted"])
    assert (figures["fenced"], figures["records_at_most"]) == ("by acl", 6)
    assert rows[["topic", "partition", "from_offset", "to_offset"]].values.tolist() == [["orders", 0, 4, 10]]


def test_topics_made_since_the_inventory_are_fenced_too(bench: Any) -> None:
    """Named one by one where everyone may write: also the topic that nobody had seen."""
    text = json.loads(bench.topology.read_text())
    text["clusters"]["primary"]["allow_everyone_if_no_acl_found"] = True
    bench.topology.write_text(json.dumps(text))
    bench.lost()
    source = bench.clusters["primary"]
    source.away, source.acls, source.partitions["late"] = False, set(), {0: 1}
    fence(bench)
    assert {e.name for e in source.acls if e.operation == "write"} == {"orders", "late", PROBE_TOPIC}


def test_a_hook_that_fences_makes_the_watcher_needless(hooked: Any) -> None:
    """Its answer is kept, it was asked again whether it still says so, and nothing stays armed."""
    procedure = hooked.lost()
    figures = fence(hooked)
    assert figures["fenced"] == "by hook"
    assert figures["answer"] == {"fenced": True, "by": "the switch", "detail": "port 7"} and figures["fenced_at"]
    assert hooked.hook.asked == [("fence", procedure.id, "primary"), ("state", "primary")] and armed(hooked) == []


def test_a_source_that_answers_is_not_left_to_the_hook(hooked: Any) -> None:
    """What can be proven is preferred to what is said."""
    hooked.lost()
    hooked.clusters["primary"].away = False
    assert fence(hooked)["fenced"] == "by acl" and hooked.hook.asked == []


@pytest.mark.parametrize("breaks", ["says no", "is away", "says yes and no"])
def test_a_hook_that_claims_nothing_leaves_it_armed(hooked: Any, monkeypatch: pytest.MonkeyPatch, breaks: str) -> None:
    """Its answer, or why there is none, is kept all the same."""
    hooked.lost()
    hooked.hook.fences, hooked.hook.away = breaks == "says yes and no", breaks == "is away"
    if breaks == "says yes and no":
        monkeypatch.setattr(hooked.hook, "state", lambda cluster: FenceAnswer(False, "", ""))
    figures = fence(hooked)
    assert figures["fenced"] == "armed" and figures["answer"]["fenced"] is False and len(armed(hooked)) == 1
    assert ("error" in figures["answer"]) == (breaks == "is away")


def test_it_is_armed_before_the_hook_is_asked(hooked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook may take half a minute, and the source may answer meanwhile."""
    hooked.lost()
    seen: list[int] = []

    def slow(*_: Any) -> Any:
        seen.append(len(armed(hooked)))
        raise HookUnavailable("the hook did not do it", "no answer")

    monkeypatch.setattr(hooked.hook, "fence", slow)
    fence(hooked)
    assert seen == [1]


@pytest.mark.parametrize("fences", [True, False])
def test_nothing_is_armed_for_nobody(hooked: Any, fences: bool) -> None:
    """No watcher lives: only a hook that fences lets the run go on; what was armed ends with the return."""
    procedure = hooked.lost()
    hooked.hook.fences = fences
    hooked.no_watcher()
    if fences:
        assert fence(hooked)["fenced"] == "by hook"
        return
    with pytest.raises(AirflowFailException, match="No process watches the old source"):
        fence(hooked)
    assert Entry.OUTCOME not in hooked.kinds(STEP)
    hooked.clusters["primary"].away = False
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(hooked.context())
    assert armed(hooked) == [] and watched_sources(telling_entries(hooked.journal))[procedure.id].state == "reopened"


def test_who_watches_is_told_with_what_is_armed(bench: Any) -> None:
    """When the watcher showed life last."""
    bench.lost()
    assert fence(bench)["watcher_seen_at"] == bench.journal.last_sign(Step.WATCH_OLD_SOURCE).isoformat()


def test_the_return_lifts_what_was_done(hooked: Any) -> None:
    """The watch ends, the hook lets clients in, and the source's entries are as they were found."""
    procedure = hooked.lost()
    fence(hooked)
    hooked.clusters["primary"].away = False
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(hooked.context())
    figures = hooked.entries(Step.RETURN_TO_SOURCE)[-1].payload
    assert figures["touched"] is True and figures["fence_hook"]["fenced"] is False and not hooked.hook.fenced
    assert hooked.hook.asked[-2:] == [("unfence", procedure.id, "primary"), ("state", "primary")]
    assert watched_sources(telling_entries(hooked.journal))[procedure.id].state == "reopened"


def test_a_hook_that_was_not_asked_is_not_told_to_let_in(hooked: Any) -> None:
    """The source was fenced by its ACLs: exactly those are lifted."""
    hooked.lost()
    hooked.clusters["primary"].away = False
    fence(hooked)
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(hooked.context())
    assert denied(hooked) == [] and hooked.hook.asked == []
    assert "fence_hook" not in hooked.entries(Step.RETURN_TO_SOURCE)[-1].payload


def test_a_hook_asked_too_late_is_taken_back(hooked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process stood still just before asking, and woke after the source was given back."""
    hooked.lost()
    ask = hooked.hook.fence

    def frozen(*what: str) -> Any:
        hooked.clusters["primary"].away = False
        ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(hooked.context())
        return ask(*what)

    monkeypatch.setattr(hooked.hook, "fence", frozen)
    with pytest.raises(Exception, match="newer process"):
        fence(hooked)
    assert not hooked.hook.fenced


def test_entries_of_others_are_not_the_fences(bench: Any) -> None:
    """A denial that was there is not added, and so never lifted."""
    theirs = AclEntry("topic", "*", "literal", "User:app", "*", "write", "deny")
    procedure = bench.lost()
    bench.clusters["primary"].away = False
    bench.clusters["primary"].acls.add(theirs)
    assert fence(bench)["acl_entries_added"] == 0 and added_entries(procedure) == []
