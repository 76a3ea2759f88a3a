"""A planned failover whose source dies in its middle, continued as an unplanned one without a way back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.domain.plain_text import table_cell
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry

from lab.checker import CheckResult
from lab.checker.client_behaviour import beyond_cut_off, late_acknowledgements
from lab.checker.evidence_file import offsets_by_partition, wall_clock_milliseconds
from lab.checker.readers import REFUSALS, ClusterReader
from lab.environment.bring_up import up
from lab.environment.take_down import down
from lab.rehearsal.planned import SOURCE, TARGET
from lab.rehearsal.unplanned import LostSourceRehearsal
from tests.faults.support import always_on
from tests.faults.support.lost_rounds import LostRounds
from tests.faults.support.lost_scene import LostScene, figures_of, lost_scene, quicken
from tests.faults.support.rounds import Rounds
from tests.faults.support.scene import PAIR, until
from tests.faults.support.stepping import Run

PLANNED = {"source": SOURCE, "target": TARGET, "reason": "planned, until its source died"}
#: The last step that the planned run did; the source dies before the next one.
FORECAST, DRAINED, TRANSLATED = "forecast", "drain_consumers", "translate_offsets"
#: Of load while replication is paused and the source not fenced yet: so much is lost with it.
LAG_SECONDS = 5.0
#: Longer than a dead source is asked once: a return that waits for it still does.
RETURN_SECONDS = 300.0
#: A broker that was started again needs a moment to lead its partitions.
CLOSED_SECONDS = 60.0
PASSES = "journal.journal.Journal.pass_lease"


class Died:
    """A planned failover that got so far when its source died, and what of it goes on trying."""

    def __init__(self, scene: LostScene, after: str) -> None:
        """Run it under load, and kill the source's broker and Connect worker."""
        self._scene, self._after, self.run = scene, after, Run(PLANNED)
        quicken(scene.lab, return_seconds=RETURN_SECONDS)
        if after == DRAINED:
            scene.at["fence_producers"] = self._hold_back
        assert scene.driver.forward(self.run, until=after), self.run.texts
        self._question = self._process("approve_failover") if after == FORECAST else {}
        scene.rehearsal.kill_source()
        scene.rehearsal.await_rest()
        if after == DRAINED:
            assert self._process("wait_for_zero_lag")["state"] == "again"
            assert self._process("return_to_source")["state"] == "waiting"

    def _hold_back(self) -> None:
        self._scene.rehearsal.pause_replication()
        time.sleep(LAG_SECONDS)

    def _process(self, step: str, **how: Any) -> dict[str, Any]:
        (found,) = self._scene.driver.processes(self.run, step, **how)
        return found

    @property
    def journal(self) -> Journal:
        """The journal of both runs."""
        return Journal(f"sqlite:///{self._scene.lab.journal}")

    def outcome(self, step: str) -> dict[str, Any]:
        """What a step of it had found."""
        return self.journal.last(self.run.procedure_id, step, Entry.OUTCOME).payload

    def evidence(self) -> dict[str, Any]:
        """Its evidence, written by the run that continued it."""
        return self._scene.driver.evidence(self.run)

    def refuses(self, successor: Run) -> None:
        """Assert that its return and an answer to its old question do nothing but say who goes on."""
        before = self.journal.entries(self.run.procedure_id)
        tries = [self._process("return_to_source")]
        if self._after == DRAINED:
            tries.append(self._process("return_to_source", woken={}))
        if self._after == FORECAST:
            tries.append(
                self._process(
                    "approve_failover",
                    event=self._scene.driver.answer(self.run, "approve_failover", self._question["subject"]),
                )
            )
        said = f"{self.run.procedure_id} is continued by {successor.procedure_id}"
        assert [(one["state"], said in one["text"]) for one in tries] == [("refused", True)] * len(tries), tries
        assert self.journal.entries(self.run.procedure_id) == before


# About five minutes each on two cores; all of the kills below together a quarter of an hour.
@pytest.mark.parametrize("after", [FORECAST, DRAINED, TRANSLATED])
@pytest.mark.parametrize("policy", ["identity", "default"])
def test_what_was_proven_is_taken_over(policy: str, after: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Nobody skips, bounds hold, and proofs stand in question and figures; the planned run is over."""
    state = fresh_lab(policy, airflow=False)
    with lost_scene(state, tmp_path) as scene:
        scene.put_under_load()
        died = Died(scene, after)
        run = scene.run(continue_procedure=died.run.procedure_id)
        evidence = scene.completed(run)
        told = evidence["plan"]["continues"]
        print(
            f"died after {after}, {policy} naming: {told}, {evidence['classes']}, re-reads {evidence['rereads']},"
            f" seconds {evidence['seconds']}",
            flush=True,
        )
        verdict = scene.checked(evidence)
        assert verdict.passed, "\n".join(verdict.lines(limit=5))
        assert min(verdict.figures[name] for name in ("positions", "acknowledged_by_load", "new_records_consumed")) > 0
        assert evidence["continues"] == {"procedure_id": died.run.procedure_id, "fenced": after != FORECAST}
        assert (
            f"**This run continues {table_cell(died.run.procedure_id)}.** What that run has proven, and this run uses:"
            in run.questions["approve_data_loss"]
        )
        PROVEN[after](scene, died, run, evidence, verdict)
        assert both_are_over(died.journal, died.run.procedure_id, run.procedure_id, died.evidence()) == []
        if after != FORECAST:
            stays_fenced(scene)
        died.refuses(run)


def nothing_proven(scene: LostScene, died: Died, run: Run, evidence: dict[str, Any], verdict: CheckResult) -> None:
    """Of a forecast that nobody had approved the topics and who was at work, and no more."""
    told = evidence["plan"]["continues"]
    found = (told["fenced_at"], told["partitions"], told["drained"], told["positions"])
    assert found == (None, 0, 0, None)
    assert "- nothing." in run.questions["approve_data_loss"]
    assert evidence["cut_off"] == []
    assert {topic for topic, *_ in died.outcome(FORECAST)["plan"]["topics"]} <= {
        topic for topic, *_ in evidence["plan"]["topics"]
    }


def ends_proven(scene: LostScene, died: Died, run: Run, evidence: dict[str, Any], verdict: CheckResult) -> None:
    """The source's last ends and the groups' last positions: every loss has an end, and no position is old."""
    told, question = evidence["plan"]["continues"], run.questions["approve_data_loss"]
    fenced, frozen = died.outcome("fence_producers"), died.outcome(DRAINED)["positions"]["rows"]
    found = (told["fenced_at"], told["partitions"], told["drained"])
    assert found == (fenced["fenced_at"], fenced["cut_off"]["rows"], 0)
    assert told["positions"] == frozen
    assert f"{told['partitions']} partitions have final log ends on {SOURCE}, which was fenced at" in question
    assert f"{frozen} positions are final" in question
    assert evidence["cut_off"] == died.evidence()["cut_off"] != []
    assert verdict.figures["not_on_target"] > 0, "replication did not lag: the case shows nothing"
    assert (verdict.figures["open_ends"], verdict.figures["positions_outdated"]) == (0, 0)
    assert evidence["plan"]["inventory"]["possible"] >= verdict.figures["not_on_target"]
    acknowledged = list(scene.rehearsal.make_ledger().periods[0].acknowledged.values())
    assert [
        *beyond_cut_off(acknowledged, offsets_by_partition(evidence["cut_off"])),
        *late_acknowledgements(acknowledged, wall_clock_milliseconds(told["fenced_at"])),
    ] == []


def all_proven(scene: LostScene, died: Died, run: Run, evidence: dict[str, Any], verdict: CheckResult) -> None:
    """Nothing is lost; frozen positions are translated anew, and those at the source's end are at the boundary."""
    told, earlier, figures = evidence["plan"]["continues"], died.outcome(TRANSLATED), figures_of(evidence, TRANSLATED)
    assert told["drained"] == told["partitions"] == died.outcome("fence_producers")["cut_off"]["rows"]
    assert told["positions"] == figures["positions"] == earlier["positions"] > 0
    assert figures["classes"].get("END", 0) == earlier["classes"].get("END", 0)
    assert evidence["loss"] == [] and verdict.figures["not_on_target"] == 0


PROVEN = {FORECAST: nothing_proven, DRAINED: ends_proven, TRANSLATED: all_proven}


def both_are_over(journal: Journal, earlier: str, successor: str, evidence: dict[str, Any]) -> list[str]:
    """What did not end as it should in a planned run and the one that completed it."""
    lease, notes = journal.lease(PAIR), [e.payload for e in journal.entries(earlier, "open_procedure", Entry.NOTE)]
    wrong = [] if (lease.holder, lease.outcome) == (successor, "completed") else [f"lease: {lease}"]
    wrong += [] if notes == [{"continued_by": successor}] else [f"notes: {notes}"]
    wrong += (
        []
        if (evidence["outcome"], evidence["continued_by"]) == ("failed", successor)
        else [f"{earlier}: {evidence['outcome']}, continued by {evidence['continued_by']}"]
    )
    return wrong + ([] if journal.verify() is None else [f"the journal's chain breaks at {journal.verify()}"])


def stays_fenced(scene: LostScene) -> None:
    """The source comes back unwatched: the fence proven before it died refuses every client."""
    always_on.stop(scene.lab, always_on.WATCHER)
    scene.rehearsal.bring_source_back()
    reader, topics = (
        ClusterReader(SOURCE, scene.lab.status()),
        {*scene.rehearsal.truth.topics, *scene.rehearsal.load.topics},
    )

    def closed() -> bool:
        answers = reader.try_writes(sorted(topics))
        assert "" not in answers.values(), answers
        return answers.keys() == topics and set(answers.values()) <= REFUSALS

    until(closed, "every write to be refused", CLOSED_SECONDS)


# About four minutes each.
@pytest.mark.parametrize("after", ["recreate_target_topics", "start_replication"])
@pytest.mark.parametrize("policy", ["identity", "default"])
def test_topics_are_being_copied_again(policy: str, after: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The copies are deleted, or copied in part, when the source dies: bounds hold, and no group skips a record."""
    state = fresh_lab(policy, airflow=False)
    with lost_scene(state, tmp_path) as scene:
        scene.put_under_load()
        topic = min(scene.rehearsal.truth.topics)
        copying = Run(
            {**PLANNED, "topics": topic, "delete_target_topics": True, "include_compacted": True},
            dag_id="re_replicate_topics",
        )
        assert scene.driver.forward(copying, until=after), copying.texts
        scene.rehearsal.kill_source()
        scene.rehearsal.await_rest()
        run = scene.run(continue_procedure=copying.procedure_id)
        evidence = scene.completed(run)
        print(f"{topic} after {after}, {policy} naming: {evidence['classes']}, {evidence['seconds']}", flush=True)
        verdict = scene.checked(evidence)
        assert verdict.passed, "\n".join(verdict.lines(limit=5))
        assert {row["topic"] for row in evidence["loss"]} & {topic}
        journal = Journal(f"sqlite:///{scene.lab.journal}")
        assert both_are_over(journal, copying.procedure_id, run.procedure_id, scene.driver.evidence(copying)) == []


# -- kill -9 around the passing of the lease -------------------------------------------------------------------------


class ContinuedRounds(LostRounds):
    """A planned failover whose source died after its translation, continued again and again."""

    earlier = Run(PLANNED, "died")
    params = LostRounds.params | {"continue_procedure": earlier.procedure_id}
    # What the planned run had stopped stays so.
    left_behind = Rounds.left_behind

    def lose(self, rehearsal: LostSourceRehearsal) -> None:
        """Load, and the accident in the middle of the planned run."""
        rehearsal.start_load()
        rehearsal.await_samples()
        assert self.driver.forward(self.earlier, until=TRANSLATED), self.earlier.texts
        rehearsal.kill_source()

    @property
    def journal(self) -> Journal:
        """The journal of both runs."""
        return Journal(f"sqlite:///{self.lab.journal}")

    def differences(self, run: Run, evidence: dict[str, Any]) -> list[str]:
        """As of every round, and how both runs ended."""
        return super().differences(run, evidence) + both_are_over(
            self.journal, self.earlier.procedure_id, run.procedure_id, self.driver.evidence(self.earlier)
        )

    def returned(self, run: Run) -> list[str]:
        """In what the world is not as it was found, or the planned run does not have its lease back."""
        lease, notes = (
            self.journal.lease(PAIR),
            self.journal.entries(self.earlier.procedure_id, "open_procedure", Entry.NOTE),
        )
        wrong = [] if (lease.holder, lease.released_at) == (self.earlier.procedure_id, None) else [f"lease: {lease}"]
        given_back = {"continued_by": None, "given_back_by": run.procedure_id, "outcome": "returned"}
        return (
            Rounds.returned(self, run)
            + wrong
            + ([] if notes[-1].payload == given_back else [f"note: {notes[-1].payload}"])
        )


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContinuedRounds]:
    """A lab without Airflow whose source died within a planned failover, and a checked continuation."""
    state = tmp_path_factory.mktemp("lab")
    try:
        up(state, airflow=False)
        made = ContinuedRounds(state, tmp_path_factory.mktemp("rounds"))
        yield made
        made.close()
    finally:
        down(state)


def killed(step: str, writes: int) -> Iterable[dict[str, dict[str, Any]]]:
    """What a step's first process suffers: killed before it passes the lease on, or after its n-th write."""
    return ({step: how} for how in ({"kill_before": PASSES}, *({"kill_at": n} for n in range(1, writes + 1))))


def findings_of(how: dict[str, Any], run: Run, found: list[str]) -> list[str]:
    """The findings of a round, and whether its process was killed at all."""
    (step,) = how
    found = found + ([] if run.killed == [step] else [f"killed: {run.killed}"])
    print(f"{how}: {found or 'same end state'}", flush=True)
    return [f"{how}: {text}" for text in found]


def test_killed_around_the_taking_of_the_lease(rounds: ContinuedRounds) -> None:
    """Killed before, at and after it, and tried again, both runs end as if nothing had happened."""
    wrong, writes = [], rounds.reference.writes["open_procedure"]
    for how in killed("open_procedure", writes):
        run = rounds.fresh()
        wrong += findings_of(how, run, rounds.differences(run, rounds.driver.whole(run, **how)))
    assert not wrong, "\n".join(wrong)
    assert writes >= 4


def test_killed_around_the_giving_back_of_the_lease(rounds: ContinuedRounds) -> None:
    """A continuation killed while it closes, tried again, leaves the planned run its lease and what it stopped."""
    wrong = []
    for how in killed("close_procedure", 3):
        run = rounds.continued("review_translation")
        rounds.driver.step(run, "return_to_source")
        rounds.driver.step(run, "close_procedure", **how["close_procedure"])
        wrong += findings_of(how, run, rounds.returned(run))
    assert not wrong, "\n".join(wrong)


def test_killed_while_both_are_closed(rounds: ContinuedRounds) -> None:
    """After each write of the closing, which files the evidence of both: the same end state."""
    wrong, writes = [], rounds.reference.writes["close_procedure"]
    for n in range(1, writes + 1):
        run, after = rounds.begun_before("close_procedure")
        how = {"close_procedure": {"kill_at": n}}
        wrong += findings_of(how, run, rounds.differences(run, rounds.driver.whole(run, after=after, **how)))
    assert not wrong, "\n".join(wrong)
    assert writes >= 5
