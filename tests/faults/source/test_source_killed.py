"""The source's broker and worker killed under load at ten moments, checked without it and again with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.rehearsal.unplanned import Accident
from tests.faults.support.lost_scene import lost_scene
from tests.support.rehearsals import SEED, exact_list, lost_without_findings

#: SWITCHBACK_MOMENTS: fewer for a quick look.
MOMENTS = int(os.environ.get("SWITCHBACK_MOMENTS", "10"))
RATE = 20_000
#: Of the rate, so much must have been acknowledged on average, from the first record to the source's death.
ATTAINED = 0.8


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("policy", ["identity", "default"])
def test_nobody_skips_and_every_record_is_accounted_for(
    policy: str, moment: int, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """None skipped, re-reads within bounds, the loss by ids; the returned source confirms the exact list."""
    accident = Accident.drawn(moment)
    print(f"{policy} naming, moment {moment}: {accident}", flush=True)
    evidence, figures = lost_without_findings(
        fresh_lab(policy), tmp_path, accident, RATE, SEED + moment, stranded=exact_list
    )
    print(
        f"our bound {evidence['rereads']['bound']}, by MirrorMaker 2's checkpoints"
        f" {evidence['rereads']['mirror_maker']}",
        flush=True,
    )
    assert figures["load_per_second"] >= ATTAINED * RATE, (
        f"{figures['load_per_second']} records/s were acknowledged, which is not the load that this is about"
    )
    # Without the source nothing is certain of a flow that has overtaken the last sample:
    # runbooks/unplanned_failover.md; test_archive_damaged has a flow that has not.
    print(
        f"certainly lost without the source: {figures['listed_certain']}, with it: {figures['stranded_certain']}",
        flush=True,
    )
    assert figures["stranded_listed"] >= figures["not_on_target"], "the source's return was not checked"
    assert not accident.kill_mirror_maker or figures["repeats"] > 0, "MirrorMaker 2 was killed, and repeated nothing"
    assert not accident.lag or figures["not_on_target"] > RATE, "replication was held back, and did not lag"
    assert not accident.lag or figures["stranded_certain"] > RATE, (
        "the source was read, and hardly anything is called certainly lost"
    )


def test_groups_a_million_records_behind_read_again_what_one_interval_brought(
    fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """All load goes to one partition, and its groups stand where they were when it had hardly begun."""
    evidence, figures = lost_without_findings(
        fresh_lab("identity"), tmp_path, Accident(after=60.0), RATE, groups=6, load_topics={"deep-load": 1}
    )
    print(
        f"{figures['acknowledged_by_load']} records, our bound {evidence['rereads']['bound']}, by MirrorMaker 2's"
        f" checkpoints {evidence['rereads']['mirror_maker']}",
        flush=True,
    )
    assert figures["load_per_second"] >= ATTAINED * RATE, f"{figures['load_per_second']} records/s were acknowledged"
    assert figures["acknowledged_by_load"] > 1_200_000, "too few records: the groups do not lag by a million"
    assert evidence["rereads"]["bound"] < 400_000, "more than one interval and its neighbour brought"


def test_nobody_had_recorded(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Without an archive nothing is certain, nothing is interpolated, the approver is told, and nobody is skipped."""
    with lost_scene(fresh_lab("identity", airflow=False), tmp_path, recorded=False) as scene:
        scene.put_under_load()
        scene.rehearsal.kill_source()
        run = scene.run()
        evidence = scene.completed(run)
        verdict = scene.checked(evidence)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["positions"] > 0
    assert [row for row in evidence["loss"] if row["certain_to"] is not None] == []
    assert set(evidence["classes"]) <= {"SYNC", "NEAREST", "POLICY", "REFUSED"}
    assert any("archive" in note for note in evidence["plan"]["unproven"])
    assert "archive" in run.questions["approve_data_loss"]
