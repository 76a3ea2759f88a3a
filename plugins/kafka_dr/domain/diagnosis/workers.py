"""The tree of the Connect workers: does each answer, and does it write to the target?"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisQuestion, DiagnosisTree, NothingFound, Reply


@dataclass(frozen=True)
class WorkerFacts:
    """One Connect worker of the flow.

    Attributes:
        name: Airflow connection that names the worker.
        failure: why its REST API, or in dedicated mode the stop hook, gave no usable answer; "" if it answered.
        refused: whether it answered that the login may not ask (HTTP 401 or 403).
        cluster_id: id of the Kafka cluster that it uses; "" if unknown, as in dedicated mode.
        target_id: id of the flow's target; None if unknown.
        overridden: whether a connector's producer has bootstrap servers of its own.
    """

    name: str
    failure: str = ""
    refused: bool = False
    cluster_id: str = ""
    target_id: str | None = None
    overridden: bool = False


WORKER_SILENT = DiagnosisEnd(
    "worker_silent",
    "The Connect worker's REST API does not answer: the worker is down, hangs, or still starts. In dedicated mode: the"
    " stop hook does not answer.",
    "Look at the process and log of the worker, or of the hook. Correct host and port in the Airflow connection if it"
    " runs elsewhere.",
)
WORKER_REFUSES_LOGIN = DiagnosisEnd(
    "worker_refuses_login",
    "The Connect worker's REST API answers, and refuses Switchback's login.",
    "Correct user and password in the worker's Airflow connection.",
)
WORKER_WRITES_ELSEWHERE = DiagnosisEnd(
    "worker_writes_elsewhere",
    "The Connect worker writes to another cluster than the flow's target: records go to the worker's own cluster,"
    " whatever `target.cluster.bootstrap.servers` says.",
    "Run the flow's connectors in the target's Connect cluster, or correct `connect` of the flow in the topology.",
)


def _ask_answer(worker: WorkerFacts) -> Reply:
    if worker.refused:
        return Reply("refuses the login", worker.failure)
    return Reply("no", worker.failure) if worker.failure else Reply("yes")


def _ask_cluster(worker: WorkerFacts) -> Reply:
    if worker.overridden or not worker.cluster_id or worker.target_id in (None, worker.cluster_id):
        return Reply("yes, or unknown")
    return Reply("no", f"cluster id of the worker {worker.cluster_id}, of the target {worker.target_id}")


WORKER_TREE = DiagnosisTree[WorkerFacts](
    "workers",
    lambda worker: worker.name,
    DiagnosisQuestion(
        "Does the Connect worker's REST API answer?",
        _ask_answer,
        {
            "no": WORKER_SILENT,
            "refuses the login": WORKER_REFUSES_LOGIN,
            "yes": DiagnosisQuestion(
                "Does the worker write to the target?",
                _ask_cluster,
                {"no": WORKER_WRITES_ELSEWHERE, "yes, or unknown": NothingFound("the worker is in order")},
            ),
        },
    ),
)
