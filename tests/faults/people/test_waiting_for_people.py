"""What changes while a person decides, or dies in `open_target`: the target opens on valid facts only."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from lab.checker.readers import ClusterReader
from tests.faults.support.scene import SOURCE, TARGET, Scene, until
from tests.faults.support.stepping import Run

FENCED_FOR_LONG = "Clients have been fenced for as long as allowed"
REMOVING, CANARY = "brokers.acls.ClusterAcls.remove", "brokers.record_writer.RecordWriter.write"
TWO_HOURS = 7200.0
REFUSED = "TOPIC_AUTHORIZATION_FAILED"


class Waiting:
    """A run whose review asks, because a group was born after the forecast; something happens meanwhile."""

    def __init__(self, scene: Scene, **params: Any) -> None:
        self.scene, self.run, self.around = scene, scene.run(**params), ExitStack()
        self.late, self.asked = "", 0
        scene.at["drain_consumers"] = self._is_born

    def _is_born(self, _: Run) -> None:
        self.late = self.scene.born()

    def at_the_review(self, act: Callable[[], object]) -> None:
        """Call something before the person approves."""

        def answer(_: Run, gate: str, __: float) -> str:
            if gate == "review_translation":
                self.asked += 1
                act()
            return "Approve"

        self.scene.answers = answer

    def before_opening(self, act: Callable[[], object]) -> None:
        """Call something after the commit, just before the opening."""
        self.scene.at["open_target"] = lambda run: act()

    def comes_alive(self, alias: str) -> None:
        """A super user's consumer of the late group, until the run is over."""
        self.around.enter_context(self.scene.member(alias, self.late, self.scene.client_topics[0]))
        until(lambda: self.scene.alive(alias, self.late), f"{self.late} on {alias}")

    def ends(self, step: str, reason: str) -> None:
        """Run it; assert that it is returned for this reason."""
        with self.around:
            self.scene.driver.whole(self.run)
        self.scene.returned(self.run, step, reason.replace("LATE", self.late))


def test_a_super_user_writes_on_the_source(scene: Scene) -> None:
    """A record behind the cut-off would be lost: refused at the opening."""
    waiting = Waiting(scene)
    waiting.at_the_review(lambda: scene.write(SOURCE, "admin", scene.client_topics[0]))
    waiting.ends("open_target", f"The source has records after the cut-off.*{scene.client_topics[0]}")
    assert waiting.asked == 1


def test_a_group_comes_alive_on_the_source(scene: Scene) -> None:
    """Its position may move: refused at the opening."""
    waiting = Waiting(scene)
    waiting.at_the_review(lambda: waiting.comes_alive(SOURCE))
    waiting.ends("open_target", f"Groups have members on {SOURCE}.*LATE")


def test_a_position_moves_on_the_source(scene: Scene) -> None:
    """An administrator commits for a frozen group: refused at the opening."""
    waiting = Waiting(scene)
    waiting.at_the_review(lambda: scene.commit(waiting.late, scene.client_topics[0], 2))
    waiting.ends("open_target", "Committed positions on the source changed after drain_consumers")


def test_a_group_comes_alive_on_the_target(scene: Scene) -> None:
    """Before the commit: positions of a living group are not touched."""
    waiting = Waiting(scene)
    waiting.at_the_review(lambda: waiting.comes_alive(TARGET))
    waiting.ends("commit_groups", "Groups have members on the target.*LATE")


def test_a_group_comes_alive_on_the_target_after_the_commit(scene: Scene) -> None:
    """It may have read on already: refused at the opening."""
    waiting = Waiting(scene)
    waiting.before_opening(lambda: waiting.comes_alive(TARGET))
    waiting.ends("open_target", f"Groups have members on {TARGET}.*LATE")


def test_target_ends_move(scene: Scene) -> None:
    """Somebody else's record on the target: refused at the opening."""
    name, waiting = scene.topic(), Waiting(scene)
    waiting.at_the_review(lambda: scene.write(TARGET, "admin", name))
    waiting.ends("open_target", f"Log ends of the target moved before open_target had begun.*{name}-0: 3 -> 4")


def test_a_right_appears_on_the_source(scene: Scene) -> None:
    """Somebody takes one entry of the fence away: refused at the opening, and given back as it was found."""
    waiting = Waiting(scene)
    waiting.at_the_review(scene.lift_one_denial)
    waiting.ends("open_target", "The fence on the source no longer covers all clients")


def test_the_approval_gets_too_old(scene: Scene) -> None:
    """Two hours at the review: the approval of the plan no longer holds when the positions are to be committed."""
    waiting = Waiting(scene)
    waiting.at_the_review(lambda: scene.driver.age(waiting.run, "approve_failover", TWO_HOURS))
    waiting.ends(
        "commit_groups",
        r"approve_failover is not a valid approval.*the answer was given 7\d\d\d s ago,"
        r" and an answer is valid for 3600 s",
    )


@pytest.mark.parametrize("gate", ["approve_failover", "review_translation"])
def test_the_approval_gets_too_old_after_the_commit(scene: Scene, gate: str) -> None:
    """The opening checks both approvals itself."""
    waiting = Waiting(scene)
    waiting.before_opening(lambda: scene.driver.age(waiting.run, gate, TWO_HOURS))
    waiting.ends("open_target", rf"{gate} is not a valid approval.*the answer was given 7\d\d\d s ago")


def test_nobody_answers(scene: Scene) -> None:
    """The fence's end comes first: the gate ends with it, and the procedure returns by itself."""
    waiting = Waiting(scene, max_fence_seconds=75.0)
    scene.answers = lambda run, gate, seconds: None if gate == "review_translation" else "Approve"
    waiting.ends("review_translation", "review_translation was not answered in time")


def test_the_answer_comes_too_late(scene: Scene) -> None:
    """An approval after the fence's end commits nothing."""
    waiting = Waiting(scene, max_fence_seconds=75.0)

    def late(_: Run, gate: str, seconds: float) -> str:
        time.sleep(seconds + 1.0 if gate == "review_translation" else 0.0)
        return "Approve"

    scene.answers = late
    waiting.ends("commit_groups|review_translation", FENCED_FOR_LONG)
    assert scene.world.look()["positions"] == {}


# -- open_target killed after its intent ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", [{"kill_at": 2}, {"kill_before": CANARY}])
def test_killed_after_its_intent_and_returned(scene: Scene, where: dict[str, Any]) -> None:
    """The source is opened only when the target is fenced again and its ends are at the boundary."""
    run = scene.run()
    assert scene.driver.forward(run, until="seed_reverse_replication"), run.texts
    (found,) = scene.driver.processes(run, "open_target", **where)
    assert found["state"] == "killed", found
    opened = [text for text in scene.changed(0.0) if f"{TARGET}: gone" in text]
    assert bool(opened) == ("kill_before" in where), "the target's denials were removed, or not, by then"
    seen: list[list[str]] = []
    scene.driver.step(
        run, "return_to_source", freeze_before=REMOVING, meanwhile=lambda: seen.append(scene.changed(0.0))
    )
    assert seen, "the return did not remove the fence"
    assert not [text for text in seen[0] if text.startswith(f"{TARGET}: ")], (
        "the source is about to be opened while the target is not closed"
    )
    assert [text for text in seen[0] if text.startswith(f"{SOURCE}: added")]
    scene.driver.step(run, "close_procedure")
    scene.returned(run, "open_target", "the step began and has no outcome")


def test_killed_after_its_intent_and_clients_wrote(scene: Scene) -> None:
    """A client's record stands on the target: the return is refused, the source stays fenced, and forward works."""
    run = scene.run(max_fence_seconds=240.0)
    assert scene.driver.forward(run, until="seed_reverse_replication"), run.texts
    (found,) = scene.driver.processes(run, "open_target", kill_before=CANARY)
    assert found["state"] == "killed", found
    topic = scene.client_topics[0]
    assert ClusterReader(TARGET, scene.lab.status()).try_writes([topic]) == {topic: ""}
    scene.spent = True
    assert scene.driver.step(run, "return_to_source") == "refused"
    assert "Clients already wrote on the target" in run.texts["return_to_source"]
    assert topic in run.texts["return_to_source"]
    assert scene.write(SOURCE, "producer", topic) == REFUSED
    assert scene.driver.step(run, "open_target") == "done", run.texts
    assert scene.driver.step(run, "return_to_source") == "refused"
    assert "The target is open" in run.texts["return_to_source"]
    assert scene.write(SOURCE, "producer", topic) == REFUSED
    assert scene.driver.forward(run, after="open_target"), run.texts
    scene.driver.step(run, "close_procedure")
    evidence = scene.driver.evidence(run)
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    assert scene.rehearsal.settle() == []
    verdict = scene.rehearsal.check(evidence, "approver")
    assert verdict.passed, verdict.lines(limit=5)
