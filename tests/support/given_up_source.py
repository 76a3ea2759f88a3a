"""Steps of a run whose source is declared lost."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.steps.shared.redirect_clients import RedirectClients
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.shared.verify_clients import VerifyClients
from kafka_dr.steps.unplanned.commit_groups import CommitWithoutSource
from kafka_dr.steps.unplanned.open_target import OpenWithoutSource
from kafka_dr.steps.unplanned.stop_mirror_maker import StopLeftMirrorMaker
from kafka_dr.steps.unplanned.translate_offsets import TranslateWithoutSource
from kafka_dr.vocabulary import Step

from tests.support.facts import figures_of

STOP, TRANSLATE, OPEN = Step.STOP_MIRROR_MAKER, Step.TRANSLATE_OFFSETS, Step.OPEN_TARGET
T0 = TopicPartition("orders", 0)
DEFAULT = {"policy": "default", "separator": "."}
DEDICATED = {
    "source": "primary",
    "target": "standby",
    "stop_hook": "hook",
    "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
}
FLOW = "primary->standby"
STEPS = {
    STOP: StopLeftMirrorMaker,
    TRANSLATE: TranslateWithoutSource,
    Step.COMMIT_GROUPS: CommitWithoutSource,
    OPEN: OpenWithoutSource,
    Step.REDIRECT_CLIENTS: RedirectClients,
    Step.VERIFY_CLIENTS: VerifyClients,
    Step.RETURN_TO_SOURCE: ReturnToSource,
}


def execute(bench: Any, step: Step, attempt: int = 1) -> dict[str, Any]:
    """Execute a step and return its newest entry."""
    STEPS[step](task_id=step.value).execute(bench.context(attempt=attempt))
    return bench.entries(step)[-1].payload


def act(bench: Any, step: Step) -> Any:
    """Do a step's work, whether or not the step was done before; return its result."""
    return STEPS[step](task_id=step.value).act(bench.procedure(), bench.context())


def denials(bench: Any) -> set[AclEntry]:
    """Return the DENY entries on the target."""
    return {e for e in bench.clusters["standby"].acls if e.permission == "deny"}


def boundary(bench: Any) -> dict[TopicPartition, int]:
    """Return the boundary in the journal."""
    procedure = bench.procedure()
    return frame_partitions(procedure.artifacts.load(figures_of(procedure, STOP)["boundary"]), "offset")


def moving(bench: Any, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """Let the target's log end grow at each of the first ``looks`` reads."""
    target, number, ends = bench.clusters["standby"], itertools.count(1), bench.clusters["standby"].ends

    def grown(partitions: Any, **kwargs: Any) -> dict[TopicPartition, int]:
        target.log_ends[T0] += next(number) <= looks
        return ends(partitions, **kwargs)

    monkeypatch.setattr(target, "ends", grown)
