"""The source frozen and thawed at each step under old producers: what it took until its fence is listed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lab.checker import CheckResult
from lab.checker.evidence_file import wall_clock_milliseconds
from lab.checker.loss_rows import loss_rows
from lab.checker.readers import ClusterReader, Place
from lab.rehearsal.planned import SOURCE, TARGET
from lab.workload.ground_truth import Acknowledgement
from tests.faults.support.lost_scene import Act, LostScene, figures_of, lost_scene
from tests.faults.support.stepping import WITHOUT_SOURCE, Run

THAWED_BEFORE = (*WITHOUT_SOURCE[WITHOUT_SOURCE.index("confirm_source_lost") + 1 :], "close_procedure")
#: While MirrorMaker 2 runs, what was approved as lost may still arrive.
MIRRORING = THAWED_BEFORE[: THAWED_BEFORE.index("stop_mirror_maker") + 1]
#: What the source took may be found out when the loss was reviewed already, and the target is not open yet: then the
#: run goes back, and says so.
FOUND_LATE = THAWED_BEFORE[THAWED_BEFORE.index("fence_source") : THAWED_BEFORE.index("open_target") + 1]
MORE_LOST = "More is lost than was approved"
#: How its title asks then.
ASKED = "Lose more than was approved, and commit these positions?"
#: Replication stands before the source freezes: nothing of what a thawed source takes arrives, so that more than was
#: approved is lost for certain.
HELD_BACK = ("approve_data_loss", "fence_source")
#: The watcher looks once a second, and a thawed broker needs a moment to be itself again.
NOTICED_SECONDS = 10.0
#: An answer that the source gave is taken note of later on a busy machine.
GRACE_MS = 3_000
#: How the question tells that both sides may take writes for a while.
WINDOW = f"until the watcher has fenced it, {SOURCE} may accept writes while {TARGET} accepts writes, too"
Fence = dict[str, Any]


class Thaw:
    """The moment at which the old source comes back, and where its logs ended before it was frozen."""

    def __init__(self, scene: LostScene, just_before: Act = lambda: None) -> None:
        """Freeze the source; what is done just before has hardly begun to have an effect."""
        self._scene = scene
        counts = {
            name: topic.partitions for name, topic in scene.rehearsal.truth.topics.items()
        } | scene.rehearsal.load.topics
        self.ends: dict[Place, int] = ClusterReader(SOURCE, scene.lab.status()).ends(
            [(name, p) for name, count in counts.items() for p in range(count)]
        )
        self.at = 0
        just_before()
        scene.signal_source(signal.SIGSTOP)

    def __call__(self) -> None:
        """The source goes on as if nothing had happened."""
        self.at = int(time.time() * 1000)
        self._scene.signal_source(signal.SIGCONT)


@pytest.mark.parametrize("step", THAWED_BEFORE)
def test_what_a_thawed_source_took_is_listed(step: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Each record that it acknowledged is on the target or listed; a run that goes back gives the source back."""
    policy = ("identity", "default")[THAWED_BEFORE.index(step) % 2]
    with lost_scene(fresh_lab(policy, airflow=False), tmp_path) as scene:
        scene.put_under_load()
        if step in HELD_BACK:
            scene.rehearsal.pause_replication()
        thaw = scene.at[step] = Thaw(scene)
        run = scene.run()
        evidence = scene.driver.whole(run)
        why = f"{evidence['outcome']} at {evidence['failing_step']}: {evidence['reason_for_outcome']}"
        completed = evidence["outcome"] == "completed"
        assert completed or (step in FOUND_LATE and evidence["outcome"] == "returned" and MORE_LOST in why), why
        fence = scene.fence(run, evidence)
        print(
            f"thawed before {step}, {policy} naming: {why}; fenced {fence['fenced']}, window"
            f" {fence.get('window_seconds')} s, at most {fence['records_at_most']} records",
            flush=True,
        )
        time.sleep(2 * GRACE_MS / 1000)
        verdict = scene.checked(evidence) if completed else CheckResult()
        scene.rehearsal.stop()
        told = list(scene.rehearsal.make_ledger().periods[0].acknowledged.values())
        fenced_at = wall_clock_milliseconds(fence["fenced_at"])
        since = [one for one in told if thaw.at < one.at and one.offset >= thaw.ends[one.topic, one.partition]]
        assert (
            unlisted(scene, evidence, fence, run, since if completed else [one for one in since if one.at <= fenced_at])
            == []
        )
        assert (problem := unmeasured(fence, thaw)) is None, problem
        assert WINDOW in run.questions["approve_data_loss"], run.questions["approve_data_loss"]
        if completed:
            assert unasked(scene, evidence, fence, run, since) == []
            assert step not in HELD_BACK or evidence["loss_grown"], (
                "nothing of what the thawed source took was mirrored, and yet no more is lost than was approved"
            )
            assert [one for one in told if one.at > fenced_at + GRACE_MS] == []
            assert beyond(scene, run, fence, thaw) == []
    left = [finding for finding in verdict.findings if not (step in MIRRORING and finding.check == "not lost")]
    print(
        f"of what was approved as certainly lost {len(verdict.findings) - len(left)} records arrived after all",
        flush=True,
    )
    assert left == [], "\n".join(map(str, left[:5]))


def unlisted(
    scene: LostScene, evidence: dict[str, Any], fence: Fence, run: Run, since: list[Acknowledgement]
) -> list[Acknowledgement]:
    """Records that are neither on the target nor in a list that has an end."""
    assert since, "old producers wrote nothing to the thawed source: the case shows nothing"
    lost, taken = loss_rows(evidence["loss"]), accepted(scene, fence, run)

    def listed(told: Acknowledgement) -> bool:
        rows = lost.get((told.topic, told.partition), [])
        return in_range(taken, told) or any(
            row.surely_lacks(told.offset) or (row.possible_to is not None and row.may_lack(told.offset)) for row in rows
        )

    return [told for told in absent(scene, since) if not listed(told)]


def absent(scene: LostScene, since: list[Acknowledgement]) -> list[Acknowledgement]:
    """Those of these records that are not on the target."""
    prefix = "" if scene.rehearsal.policy == "identity" else f"{SOURCE}."
    places = {(prefix + told.topic, told.partition) for told in since}
    there = {
        held.digest
        for log in ClusterReader(TARGET, scene.lab.status()).read(sorted(places), "read_uncommitted").values()
        for held in log
    }
    return [told for told in since if told.digest not in there]


def in_range(taken: dict[Place, tuple[int, int]], told: Acknowledgement) -> bool:
    """Whether a list of what was taken has this record."""
    start, end = taken.get((told.topic, told.partition), (0, 0))
    return start <= told.offset < end


def unasked(
    scene: LostScene, evidence: dict[str, Any], fence: Fence, run: Run, since: list[Acknowledgement]
) -> list[str]:
    """What the reviewer was not asked about a grown loss, by the evidence and by records not on the target."""
    grown = {(row["topic"], row["partition"]) for row in evidence["loss_grown"]}
    question = run.questions.get("review_translation", "")
    wrong = [
        f"{place}: records were taken before the review and are not on the target, and its loss has not grown"
        for place in sorted(lost_before_review(scene, evidence, fence, run, since) - grown)
    ]
    if bool(grown) != (MORE_LOST in question and question.startswith(ASKED)):
        wrong.append(f"{len(grown)} partitions lose more than was approved, and the question was: {question[:400]}")
    if grown and not figures_of(evidence, "review_translation").get("asked"):
        wrong.append("a loss that had grown, and nobody was asked")
    print(f"{len(grown)} partitions lose more than was approved", flush=True)
    return wrong


def lost_before_review(
    scene: LostScene, evidence: dict[str, Any], fence: Fence, run: Run, since: list[Acknowledgement]
) -> set[Place]:
    """Partitions with records that the list before the review has and the target has not."""
    reviewed = next(row for row in evidence["steps"] if row["id"] == "review_translation")
    by_watcher = "accepted" not in figures_of(evidence, "fence_source")
    if by_watcher and scene.watched(run).at >= datetime.fromisoformat(reviewed["started_at"]):
        return set()
    taken = accepted(scene, fence, run)
    return {(told.topic, told.partition) for told in absent(scene, since) if in_range(taken, told)}


def accepted(scene: LostScene, fence: Fence, run: Run) -> dict[Place, tuple[int, int]]:
    """What is listed as taken until the fence, by partition: where nobody knows from when on, it is everything."""
    rows = scene.kept(run, fence["accepted"])
    return {
        (row.topic, row.partition): (0 if pd.isna(row.from_offset) else int(row.from_offset), int(row.to_offset))
        for row in rows.itertuples()
    }


def beyond(scene: LostScene, run: Run, fence: Fence, thaw: Thaw) -> list[str]:
    """Partitions whose log ends elsewhere now than behind the fence."""
    rows = scene.kept(run, fence["ends_at_fence"])
    said = {(row.topic, row.partition): int(row.offset) for row in rows.itertuples()}
    # A client from before the thaw still has the leaders' older epoch.
    now = ClusterReader(SOURCE, scene.lab.status()).ends(thaw.ends)
    return [
        f"{place}: {said.get(place)} at the fence, {end} now" for place, end in now.items() if said.get(place) != end
    ]


def unmeasured(fence: Fence, thaw: Thaw) -> str | None:
    """What is wrong with the measured window; one that the procedure's own step closed at once has none."""
    if "answers_since" not in fence:
        return None
    since, until = (datetime.fromisoformat(fence[name]).timestamp() for name in ("answers_since", "fenced_at"))
    if abs((until - since) - fence["window_seconds"]) > 0.01:
        return f"{fence['window_seconds']} s are not {until - since} s"
    unseen = since - thaw.at / 1000
    return f"the source was back for {unseen:.1f} s before anybody noticed" if unseen > NOTICED_SECONDS else None
