"""Facts (contents of journal entries) about the common plan of all pairs of a lost cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_dr.procedure.entries.fact import Intent, Note, StepOutcome
from kafka_dr.procedure.entries.planning import Planned
from kafka_dr.vocabulary import Step


@dataclass(frozen=True)
class PairRun:
    """The run of unplanned_failover of one pair: the cluster where clients go, and Airflow's id of the run."""

    target: str
    run_id: str


class PairToStart(Intent, steps=(Step.START_PAIRS,)):
    """A pair's run is about to be started."""

    starts_pair: PairRun


class PairsStarted(StepOutcome, steps=(Step.START_PAIRS,)):
    """The runs of all pairs were started; the run of the pair to which the routing record leads is the first."""

    pairs: Sequence[PairRun]


class LostClusterPlanned(Planned, steps=(Step.PLAN_LOST_CLUSTER,)):
    """The common plan: `LostClusterPlan.as_dict`."""


class PairsToFollow(Intent, steps=(Step.FOLLOW_PAIRS,)):
    """The approval is given, by which the pairs' runs act: procedure ids of these runs."""

    follows_pairs: Sequence[str]


class PairsNotMoved(Note, steps=(Step.FOLLOW_PAIRS,)):
    """Pairs ended otherwise than completed.

    Attributes:
        not_moved: procedure id of a pair's run -> outcome.
        final: whether none of these runs can be resumed.
    """

    not_moved: Mapping[str, str]
    final: bool


class PairsMoved(StepOutcome, steps=(Step.FOLLOW_PAIRS,)):
    """The runs of all pairs completed: procedure id -> digest of its evidence."""

    evidence_digests: Mapping[str, str]
