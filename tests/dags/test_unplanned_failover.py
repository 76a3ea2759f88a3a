"""unplanned_failover: what it must not ask of a source that is dead."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.steps.planned.check_readiness import CheckReadiness
from kafka_dr.steps.planned.drain_consumers import DrainConsumers
from kafka_dr.steps.planned.fence_producers import FenceProducers
from kafka_dr.steps.planned.forecast import Forecast
from kafka_dr.steps.planned.stop_mirror_maker import StopMirrorMaker
from kafka_dr.steps.planned.wait_for_zero_lag import WaitForZeroLag
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.steps.unplanned.approve_data_loss import ApproveDataLoss
from kafka_dr.steps.unplanned.commit_groups import CommitWithoutSource
from kafka_dr.steps.unplanned.open_target import OpenWithoutSource
from kafka_dr.steps.unplanned.stop_mirror_maker import StopLeftMirrorMaker
from kafka_dr.steps.unplanned.translate_offsets import TranslateWithoutSource


@pytest.fixture
def dag(dag_bag: Any) -> Any:
    """The DAG."""
    return dag_bag.dags["unplanned_failover"]


def test_no_step_needs_a_living_source(dag: Any) -> None:
    """None is of a kind that asks the source for its fence, its positions or its log ends."""
    asking = (FenceProducers, DrainConsumers, WaitForZeroLag, StopMirrorMaker, Forecast, CheckReadiness)
    assert not [t.task_id for t in dag.tasks if isinstance(t, asking)]
    kinds = {
        "stop_mirror_maker": StopLeftMirrorMaker,
        "translate_offsets": TranslateWithoutSource,
        "commit_groups": CommitWithoutSource,
        "open_target": OpenWithoutSource,
    }
    assert {name: type(dag.get_task(name)) for name in kinds} == kinds


def test_people_are_asked_for_the_loss(dag: Any) -> None:
    """What is lost is approved, and positions that are not proven are reviewed."""
    assert {name: type(dag.get_task(name)) for name in ("approve_data_loss", "review_translation")} == {
        "approve_data_loss": ApproveDataLoss,
        "review_translation": ReviewTranslation,
    }
