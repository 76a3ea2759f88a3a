"""Where knowledge of a lost source is old, missing or wrong, classes are safer and no record is skipped."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.domain.plain_text import format_moment
from kafka_dr.hooks.journal.journal import Journal

from lab.checker import CheckResult, Finding
from lab.checker.monotonicity import bolder_groups, bolder_losses, bolder_positions, higher_positions
from lab.checker.translation_file import read_rows
from lab.rehearsal.planned import SOURCE
from lab.rehearsal.unplanned import LostSourceRehearsal
from tests.faults.support.damage import (
    SYNCS_TOPIC,
    ArchiveDamage,
    SyncsDamage,
    Topics,
    compacted,
    dropped,
    flipped,
    poisoned,
)
from tests.faults.support.lost_rounds import STOP_SECONDS, LostRounds
from tests.faults.support.lost_scene import LostScene, lost_scene
from tests.faults.support.rounds import on_a_lab
from tests.faults.support.scene import PAIR, until
from tests.faults.support.stepping import Run

OFF_SECONDS = 300.0
#: Of load while replication stands, before the source dies: what it takes then is lost.
HELD_SECONDS = 5.0
#: What cannot be proven any more must not be claimed: these classes are left without a source.
WITHOUT_PROOF = {"SYNC", "NEAREST", "POLICY", "REFUSED"}
#: A bit of an offset from which on a flip puts it beyond every log of this lab: only what was recorded could tell a
#: smaller error.
FAR_BIT = 24


class DamagedRounds(LostRounds):
    """Five minutes of load and births of groups, then a lag; ``fuller`` is the run with all that is known."""

    rate = 500
    saved_after = ()

    def __init__(self, state: Path, folder: Path) -> None:
        super().__init__(state, folder)
        self.archive, self.syncs = ArchiveDamage(self.lab, folder / "archive"), SyncsDamage(self.lab)
        self.fuller = self.driver.evidence(self.reference)
        self._positions = self._rows(self.reference, self.fuller)
        print(
            f"{len(self.syncs.records)} offset syncs, certainly lost with all of it: {certain(self.said)};"
            f" {dict(self.figures)}",
            flush=True,
        )
        assert len(self.syncs.records) > 1_000, "too few offset syncs for a thousandth of them"
        assert self.figures["not_on_target"] > 0, "replication was held back, and nothing is lost"
        assert self.figures["listed_certain"] > 0, (
            "replication was held back, and of nothing it is certain that it is lost"
        )

    def lose(self, rehearsal: LostSourceRehearsal) -> None:
        """Load, and the accident."""
        rehearsal.set_offset_lag_max(0)
        rehearsal.start_load()
        rehearsal.await_samples()
        time.sleep(OFF_SECONDS / 2)
        rehearsal.load.place_groups(rehearsal.truth, 3, random.Random(5))
        time.sleep(OFF_SECONDS / 2)
        # Killed while replication stands: at this rate MirrorMaker 2 would fetch all that it lacks at once.
        rehearsal.kill_source_held_back(HELD_SECONDS)

    def checked(self, evidence: dict[str, Any]) -> CheckResult:
        """As of every round, and what was counted is kept."""
        verdict = super().checked(evidence)
        self.figures = verdict.figures
        return verdict

    def run_off(self) -> None:
        """As if the recorder had ended five minutes before the source."""
        last = self.rehearsal.died_at - 1000 * OFF_SECONDS
        assert self.archive.keep_rows(lambda row: row["at"] <= last) > 0

    def thin_out(self) -> None:
        """As if MirrorMaker 2 had dropped three of ten of its statements."""
        rng = random.Random(11)
        assert self.archive.keep_rows(lambda row: row["kind"] != "sync" or rng.random() >= 0.3) > 0
        self.syncs.write_anew(dropped(self.syncs.records))

    def without_archive(self, records: list[tuple[bytes | None, bytes | None]] | None = None) -> None:
        """No archive, and other offset syncs."""
        self.archive.remove()
        if records is not None:
            self.syncs.write_anew(records)

    def restore(self) -> None:
        """All that is known, as it was."""
        self.archive.bring_back()
        self.syncs.write_anew(self.syncs.records)

    def bolder(self, run: Run, evidence: dict[str, Any], sampled: bool) -> list[Finding]:
        """Where a run claims more than the one with all that is known."""
        rows, known = self._rows(run, evidence), self._positions
        higher, groups = higher_positions(known, rows), (one["plan"]["groups"] for one in (self.fuller, evidence))
        print(f"{len(higher)} of {len(rows)} positions stand higher than with all that is known", flush=True)
        return (
            bolder_positions(known, rows, sampled)
            + bolder_losses(self.fuller["loss"], evidence["loss"])
            + bolder_groups(*groups, [] if sampled else higher)
        )

    def _rows(self, run: Run, evidence: dict[str, Any]) -> list[dict[str, Any]]:
        return read_rows(self.lab.evidence / run.procedure_id / evidence["positions"])

    def check_without_counts(self, evidence: dict[str, Any]) -> CheckResult:
        """The check's verdict where nobody need know every position."""
        check = self.rehearsal.checker_for(evidence, "approver")
        check.trip.recorded = False
        return check.check(writes=False)


def certain(evidence: dict[str, Any]) -> int:
    """How many records are called certainly lost."""
    return sum(row["certain_to"] - row["from_offset"] for row in evidence["loss"] if row["certain_to"] is not None)


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DamagedRounds]:
    """A lab whose source was killed, with all that is known of it, and a run with all of it that the check passed."""
    yield from on_a_lab(DamagedRounds, tmp_path_factory)


@pytest.fixture
def damaged(rounds: DamagedRounds) -> Iterator[DamagedRounds]:
    """All that is known, to be damaged."""
    yield rounds
    rounds.restore()


#: Name -> what is done, and what the approver must be told cannot be proven (nothing where nobody can know, or the
#: inventory says it).
DAMAGE: dict[str, tuple[Callable[[DamagedRounds], object], str]] = {
    "archive missing": (DamagedRounds.without_archive, "archive"),
    "syncs with gaps": (DamagedRounds.thin_out, ""),
    "archive missing, syncs with gaps": (lambda lab: lab.without_archive(dropped(lab.syncs.records)), "archive"),
    "archive missing, syncs compacted": (lambda lab: lab.without_archive(compacted(lab.syncs.records)), "archive"),
    "archive missing, no syncs": (lambda lab: lab.without_archive([]), "archive"),
    "bits of syncs flipped": (lambda lab: lab.syncs.append(flipped(lab.syncs.records, few(lab))), ""),
    "archive missing, bits of syncs flipped": (
        lambda lab: lab.without_archive(lab.syncs.records + flipped(lab.syncs.records, few(lab), FAR_BIT)),
        "archive",
    ),
    "archive missing, flipped syncs among the others": (lambda lab: lab.without_archive(mixed(lab)), "archive"),
}


def few(lab: DamagedRounds) -> int:
    """Half a thousandth of the offset syncs."""
    return max(1, len(lab.syncs.records) // 2_000)


def mixed(lab: DamagedRounds) -> list[tuple[bytes | None, bytes | None]]:
    """Offset syncs with a few flipped ones at random places."""
    rng, records = random.Random(3), list(lab.syncs.records)
    for record in flipped(records, few(lab), FAR_BIT):
        records.insert(rng.randrange(len(records)), record)
    return records


def test_the_recorder_was_off_for_five_minutes(damaged: DamagedRounds) -> None:
    """As by every damage; and the approver reads how old the last sample is."""
    damaged.run_off()
    run, evidence = checked_round(damaged, "recorder off for five minutes")
    seen = evidence["plan"]["seen"]
    assert seen["recorded_at"] <= damaged.rehearsal.died_at - 1000 * OFF_SECONDS
    assert (
        f"The recorder's last sample of {SOURCE} was made at"
        f" {format_moment(datetime.fromtimestamp(seen['recorded_at'] / 1000, UTC).isoformat())}"
        in run.questions["approve_data_loss"]
    )
    assert re.search(
        r"began to check \w+ \d+ (min|h) \d+ (s|min) after that sample", run.questions["approve_data_loss"]
    )


@pytest.mark.parametrize("name", DAMAGE)
def test_nobody_skips(damaged: DamagedRounds, name: str) -> None:
    """No group skips, no more is claimed than with full knowledge, and the approver sees what can be known to lack."""
    damage, told = DAMAGE[name]
    damage(damaged)
    run, evidence = checked_round(damaged, name)
    assert _said(evidence, told), evidence["plan"]["unproven"]
    if "archive missing" in name:
        assert certain(evidence) == 0
        assert "**The recorder's archive has no sample of " in run.questions["approve_data_loss"]


def checked_round(damaged: DamagedRounds, name: str) -> tuple[Run, dict[str, Any]]:
    """A whole run: the check finds nothing, records are lost, and each row claims no more than the fuller run."""
    run = damaged.fresh()
    evidence = damaged.driver.whole(run)
    assert evidence["outcome"] == "completed", f"{evidence['failing_step']}: {evidence['reason_for_outcome']}"
    verdict = damaged.check_without_counts(evidence)
    print(
        f"{name}: {evidence['classes']}, bound {evidence['rereads']['bound']}, certainly lost {certain(evidence)};"
        f" {dict(verdict.figures)}",
        flush=True,
    )
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["positions"] > 0
    assert verdict.figures["not_on_target"] > 0, "nothing was lost: what is said of the loss was not tried"
    assert set(evidence["classes"]) <= WITHOUT_PROOF
    bolder = damaged.bolder(run, evidence, sampled="archive missing" not in name)
    assert bolder == [], "\n".join(map(str, bolder[:5]))
    return run, evidence


def test_a_few_poison_records_are_counted(damaged: DamagedRounds) -> None:
    """Cut off, foreign, without a value, negative: they are left out, and how many they are is said."""
    count = few(damaged)
    damaged.syncs.append(poisoned(damaged.syncs.records, count))
    _, evidence = checked_round(damaged, f"{count} poison records")
    assert certain(evidence) == certain(damaged.said), "what nobody can read took certainty away"
    assert _said(evidence, rf"\b{count} of \d+ records of {re.escape(SYNCS_TOPIC)}"), evidence["plan"]["unproven"]


@pytest.mark.parametrize("archived", [True, False])
def test_too_many_poison_records_stop_the_run(damaged: DamagedRounds, archived: bool) -> None:
    """More than a thousandth of what was read of a topic: nothing is touched, and the topic is named."""
    count = len(damaged.syncs.records) // 400 + 1
    if not archived:
        damaged.archive.remove()
    damaged.syncs.append(poisoned(damaged.syncs.records, count))
    run = damaged.fresh()
    before = damaged.world.look()
    evidence = damaged.driver.whole(run)
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "assess_data_loss"), evidence[
        "reason_for_outcome"
    ]
    assert SYNCS_TOPIC in evidence["reason_for_outcome"] and str(count) in evidence["reason_for_outcome"]
    until(lambda: damaged.world.look() == before, "the world as it was", STOP_SECONDS)
    assert Journal(f"sqlite:///{damaged.lab.journal}").lease(PAIR).released_at is not None


def _said(evidence: dict[str, Any], pattern: str) -> bool:
    """Whether what cannot be proven is told to the approver."""
    return bool(re.search(pattern, "\n".join(evidence["plan"]["unproven"])))


# -- the target's topic is another one ---------------------------------------------------------------------------------


def _under_load(scene: LostScene, topic: str) -> None:
    scene.put_under_load(lambda: Topics(scene.lab).made_again_by_mirror_maker(topic))
    scene.rehearsal.kill_source()


def _afterwards(scene: LostScene, topic: str) -> None:
    scene.put_under_load()
    scene.rehearsal.kill_source()
    Topics(scene.lab).made_again_empty(topic, scene.rehearsal.load.topics[topic.removeprefix(f"{SOURCE}.")])


@pytest.mark.parametrize(("lose", "recorded"), [(_under_load, True), (_under_load, False), (_afterwards, True)])
@pytest.mark.parametrize("policy", ["identity", "default"])
def test_a_topic_made_again_on_the_target(
    policy: str, lose: Callable[[LostScene, str], None], recorded: bool, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """Statements about the log before it count for nothing: nobody skips, and what it lacks is listed."""
    with lost_scene(fresh_lab(policy, airflow=False), tmp_path, recorded=recorded, clients=False) as scene:
        topic = next(iter(scene.rehearsal.load.topics))
        lose(scene, topic if policy == "identity" else f"{SOURCE}.{topic}")
        evidence = scene.completed(scene.run())
        verdict = scene.checked(evidence)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["not_on_target"] > 0
    assert set(evidence["classes"]) <= WITHOUT_PROOF
    assert _said(evidence, "(?i)anew|recreat" if recorded else "archive")
