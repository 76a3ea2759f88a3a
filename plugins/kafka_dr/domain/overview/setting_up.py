"""What an installation still lacks, each with one sentence on what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafka_dr.domain.notices.notice import Notice
from kafka_dr.domain.plain_text import first_few
from kafka_dr.procedures import PROCEDURES

READINESS_DAG = "readiness_check"


@dataclass(frozen=True)
class SetUpTask:
    """One thing to set up: what is lacking, and what to do."""

    lacking: str
    todo: str


@dataclass(frozen=True)
class Installation:
    """What is set up.

    Attributes:
        paused: DAG -> whether it is paused; None if Airflow does not know it. DAGs of which nothing is known are left
            out.
        unchecked: flows without a readiness document, each `source->target`.
        silent: notices about recorder and watcher, if they show no life.
        recorder, notified, approvers: whether the topology names a recorder, a route of notices, an approver.
        drills: aliases of the clusters beside which the topology names Connect workers for drills.
        clusters: number of clusters of the topology.
        undecided: flows of which the topology records no offset option, each `source->target`.
    """

    paused: Mapping[str, bool | None]
    unchecked: Sequence[str]
    silent: Sequence[Notice]
    recorder: bool
    notified: bool
    approvers: bool
    drills: Sequence[str]
    clusters: int
    undecided: Sequence[str] = ()


def tasks_of(installation: Installation) -> list[SetUpTask]:
    """Return what is to be set up next, the most important first; [] if nothing is lacking."""
    return [
        *_readiness(installation),
        *unready_dags(installation.paused, PROCEDURES),
        *_services(installation),
        *_settings(installation),
    ]


def _readiness(installation: Installation) -> Iterator[SetUpTask]:
    paused = installation.paused.get(READINESS_DAG, False)
    if paused is None:
        yield _unknown_dag(READINESS_DAG)
    elif paused:
        yield SetUpTask(
            f"{READINESS_DAG} is paused",
            f"Unpause the DAG {READINESS_DAG}: every five minutes it checks whether a failover would work, and changes"
            " nothing.",
        )
    elif installation.unchecked:
        yield SetUpTask(
            f"No check has ended yet of {first_few(installation.unchecked)}",
            f"Wait five minutes, or trigger the DAG {READINESS_DAG} with source and target; if no document comes, read"
            " the log of its task check_flows.",
        )


def unready_dags(paused: Mapping[str, bool | None], dags: Iterable[str]) -> Iterator[SetUpTask]:
    """Yield what is lacking so that runs of these DAGs would begin.

    Args:
        paused: DAG -> whether it is paused; None if Airflow does not know it. DAGs of which nothing is known are
            missing.
        dags: ids of the DAGs.
    """
    wanted = list(dags)
    names = [dag for dag in wanted if paused.get(dag, False)]
    if names:
        yield SetUpTask(
            f"Paused: {', '.join(names)}",
            "Unpause these DAGs: a run of a paused DAG stays queued, also in an emergency.",
        )
    for dag in wanted:
        if paused.get(dag, False) is None:
            yield _unknown_dag(dag)


def _unknown_dag(dag: str) -> SetUpTask:
    return SetUpTask(
        f"Airflow does not know the DAG {dag}",
        "Point Airflow's DAG folder at Switchback's folder dags, and look for import errors in Airflow.",
    )


def _services(installation: Installation) -> Iterator[SetUpTask]:
    for notice in _once_each(installation.silent):
        yield SetUpTask(notice.lines[0].removesuffix("."), " ".join(notice.lines[1:]))
    if not installation.recorder:
        yield SetUpTask(
            "The topology names no recorder",
            "Add `recorder` with an archive on the target's side (runbooks/record_positions.md): without its samples"
            " the loss of a lost source is unknown.",
        )


def _once_each(notices: Iterable[Notice]) -> list[Notice]:
    """Return the first notice of each event: a recorder that is silent about several flows is named once."""
    return list({notice.event: notice for notice in reversed(list(notices))}.values())[::-1]


def _settings(installation: Installation) -> Iterator[SetUpTask]:
    if not installation.approvers:
        yield SetUpTask(
            "The topology names no approvers",
            "Name users or roles under `approvers`: until then everybody but the starter of a run may approve it.",
        )
    if not installation.notified:
        yield SetUpTask(
            "Nobody is notified",
            "Add `notifications` (runbooks/notifications.md): until then an open gate or a silent recorder is seen only"
            " by who looks here.",
        )
    if installation.undecided:
        yield SetUpTask(
            f"No offset option is recorded of {first_few(installation.undecided)}",
            "Record under `offset_option` of the flow which option was chosen and why (runbooks/offset_options.md):"
            " plans show it to who approves the next failover.",
        )
    if len(installation.drills) < installation.clusters:
        yield SetUpTask(
            "No Connect workers for drills"
            if not installation.drills
            else "A cluster has no Connect worker for drills",
            "Name one Connect worker group beside each cluster under `connect` of `drill` in the topology: until then a"
            " drill only observes.",
        )
