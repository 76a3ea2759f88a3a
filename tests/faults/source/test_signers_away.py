"""The journal's key, the recorder's key or the anchors' topic is taken away in the middle of an unplanned failover."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from kafka_dr.vocabulary import JOURNAL_TOPIC, Step

from lab.environment.brokers import admin_client
from lab.rehearsal.planned import TARGET
from tests.faults.support import always_on
from tests.faults.support.lost_scene import LostScene, lost_scene
from tests.faults.support.stepping import ROOT, Run, product_environment

#: Longer than the procedure waits for an answer with anchors, a cluster id and a written intent.
FROZEN_SECONDS = 12.0
NO_CLUSTER = "no cluster both showed its anchors of the journal and took new ones"


@contextmanager
def without_source(state: Path, folder: Path, before_it: Callable[[LostScene], object]) -> Iterator[LostScene]:
    """Yield a scene whose source was killed under load, after `before_it` and two more samples."""
    with lost_scene(state, folder) as scene:
        scene.put_under_load(meanwhile=lambda: before_it(scene))
        scene.rehearsal.kill_source()
        yield scene


def without_findings(scene: LostScene, run: Run) -> dict[str, Any]:
    """Run the whole procedure; assert that it completes and that the check passes. Return the evidence."""
    evidence = scene.completed(run)
    verdict = scene.checked(evidence)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["positions"] > 0
    return evidence


def verified(scene: LostScene, run: Run) -> tuple[int, str]:
    """Compare the evidence with the journal, and the journal with its anchors; return exit status and output."""
    command = [sys.executable, "-m", "kafka_dr.commands.verify_evidence", "--journal"]
    done = subprocess.run(
        [*command, str(scene.lab.evidence / run.procedure_id)],
        cwd=ROOT, env=product_environment(scene.lab), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def missed(evidence: dict[str, Any], step: str) -> list[dict[str, Any]]:
    """Return what a step noted on places without anchors."""
    notes = next(row["notes"] for row in evidence["steps"] if row["id"] == step)
    return [note for note in notes if "anchored_on" in note]


def test_all_at_hand(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """With all keys and anchors nothing is unsigned: what the other tests find comes from what they take away."""
    with without_source(fresh_lab("identity", airflow=False), tmp_path, lambda scene: None) as scene:
        run = scene.run()
        evidence = without_findings(scene, run)
        status, said = verified(scene, run)
    assert [text for text in evidence["warnings"] if not text.startswith("Objective ")] == []
    assert status == 0, said


def test_the_journals_key_is_lost(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """From the gate on approval, closing and anchors are unsigned; evidence and check name each."""
    with without_source(fresh_lab("identity", airflow=False), tmp_path, lambda scene: None) as scene:
        scene.at[Step.APPROVE_DATA_LOSS] = scene.lab.journal_key.unlink
        run = scene.run()
        evidence = without_findings(scene, run)
        status, said = verified(scene, run)
    unsigned = [text for text in evidence["warnings"] if "is not signed by the journal's key" in text]
    assert any(Step.APPROVE_DATA_LOSS in text and str(scene.lab.journal_key) in text for text in unsigned), unsigned
    assert any(NO_CLUSTER in text for text in evidence["warnings"])
    assert missed(evidence, Step.ASSESS_DATA_LOSS) == []
    (note,) = missed(evidence, Step.OPEN_TARGET)
    assert "the anchor is not signed, and does not count" in note["unwritten"][TARGET]
    assert status == 1
    for step in (Step.APPROVE_DATA_LOSS, Step.CLOSE_PROCEDURE):
        assert f"of {step}" in said or step in said, said


def test_the_recorders_key_is_lost(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """What the recorder stores without its key moves no group; plan and evidence name it, and nobody is ahead."""

    def record_unsigned(scene: LostScene) -> None:
        always_on.stop(scene.lab, always_on.RECORDER)
        scene.lab.recorder_key.unlink()
        always_on.start(scene.lab, always_on.RECORDER)

    with without_source(fresh_lab("identity", airflow=False), tmp_path, record_unsigned) as scene:
        run = scene.run()
        evidence = without_findings(scene, run)
        assert "samples are not signed" in always_on.said(scene.lab, always_on.RECORDER)
    assert any("unsigned" in note for note in evidence["plan"]["unproven"]), evidence["plan"]["unproven"]
    assert "unsigned" in run.questions["approve_data_loss"]


def test_the_anchors_cluster_does_not_answer(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The target is frozen for a moment, and later refuses the topic: each step goes on, and names what it missed."""
    with without_source(fresh_lab("identity", airflow=False), tmp_path, lambda scene: None) as scene:
        broker, admin = scene.lab.processes.pid(f"broker-{TARGET}"), admin_client(scene.lab, TARGET)
        thawing = threading.Timer(FROZEN_SECONDS, os.kill, (broker, signal.SIGCONT))

        def freeze() -> None:
            os.kill(broker, signal.SIGSTOP)
            thawing.start()

        def refuse() -> None:
            entry = AclBinding(
                ResourceType.TOPIC, JOURNAL_TOPIC, ResourcePatternType.LITERAL, "User:orchestrator", "*",
                AclOperation.ALL, AclPermissionType.DENY,
            )  # fmt: skip
            admin.create_acls([entry])[entry].result(30)

        scene.at |= {Step.ASSESS_DATA_LOSS: freeze, Step.COMMIT_GROUPS: refuse}
        run = scene.run()
        evidence = without_findings(scene, run)
        thawing.join()
        status, said = verified(scene, run)
    frozen, refused = missed(evidence, Step.ASSESS_DATA_LOSS), missed(evidence, Step.OPEN_TARGET)
    assert frozen and TARGET in frozen[0]["unread"], evidence["steps"]
    assert refused and TARGET in refused[0]["unread"] and TARGET in refused[0]["unwritten"], refused
    (warning,) = [text for text in evidence["warnings"] if NO_CLUSTER in text]
    assert Step.OPEN_TARGET in warning
    assert status == 0 and TARGET in said, said
