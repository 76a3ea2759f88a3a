"""The tree of the clusters: do both answer Switchback's own login, and can all partitions be read?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisQuestion, DiagnosisTree, NothingFound, Reply
from kafka_dr.domain.plain_text import first_few


class Reach(StrEnum):
    """How far one login gets on one cluster.

    SILENT: an address accepts a connection, and nothing answers. UNKNOWN: the login was not tried.
    """

    ANSWERS = "answers"
    REFUSES_LOGIN = "refuses the login"
    SILENT = "connects, but does not answer"
    UNREACHABLE = "no connection"
    UNKNOWN = "not tried"


@dataclass(frozen=True)
class ClusterReach:
    """What came of a login to a cluster.

    Attributes:
        seen: what was seen, without secrets.
        cluster_id: None unless the cluster answers.
    """

    reach: Reach
    seen: str = ""
    cluster_id: str | None = None


NOT_TRIED = ClusterReach(Reach.UNKNOWN)


@dataclass(frozen=True)
class ClusterFacts:
    """One cluster of the flow.

    Attributes:
        role: `source` or `target`.
        login: what came of Switchback's own login.
        other_id: cluster id of the other side; None if it does not answer.
        leaderless: partitions without leader.
    """

    alias: str
    role: str
    login: ClusterReach
    other_id: str | None = None
    leaderless: tuple[str, ...] = ()


OWN_LOGIN_REFUSED = DiagnosisEnd(
    "own_login_refused",
    "The brokers answer, and refuse Switchback's own login.",
    "Correct user, password or certificate in the cluster's Airflow connection. MirrorMaker 2 has a login of its own:"
    " whether that one works, another finding says.",
)
BROKERS_UNREACHABLE = DiagnosisEnd(
    "brokers_unreachable",
    "No broker of the cluster accepts a connection from here.",
    "Find out whether the brokers run, and whether a firewall or a wrong address lies between. If the cluster is lost,"
    " run unplanned_failover.",
)
BROKERS_SILENT = DiagnosisEnd(
    "brokers_silent",
    "A broker accepts connections and answers none: its process hangs, or the listener has another security protocol.",
    "Look at the brokers' processes and logs. Compare security.protocol of the Airflow connection with the listener.",
)
CLUSTERS_ARE_ONE = DiagnosisEnd(
    "clusters_are_one",
    "Both connections lead to one cluster.",
    "Correct bootstrap.servers in the Airflow connection that leads to the wrong cluster.",
)
PARTITIONS_WITHOUT_LEADER = DiagnosisEnd(
    "partitions_without_leader",
    "Partitions have no leader: they can neither be read nor written, so MirrorMaker 2 copies nothing from or to them.",
    "Start the brokers that hold their replicas.",
)


def _ask_login(cluster: ClusterFacts) -> Reply:
    return Reply(cluster.login.reach.value, f"{cluster.alias}: {cluster.login.seen}" if cluster.login.seen else "")


def _ask_same_cluster(cluster: ClusterFacts) -> Reply:
    is_one = cluster.login.cluster_id is not None and cluster.login.cluster_id == cluster.other_id
    return Reply("yes", f"both have the cluster id {cluster.other_id}") if is_one else Reply("no")


def _ask_leaders(cluster: ClusterFacts) -> Reply:
    return Reply("no", first_few(cluster.leaderless)) if cluster.leaderless else Reply("yes")


CLUSTER_TREE = DiagnosisTree[ClusterFacts](
    "clusters",
    lambda cluster: f"{cluster.role} {cluster.alias}",
    DiagnosisQuestion(
        "Does the cluster answer Switchback's own login?",
        _ask_login,
        {
            Reach.UNREACHABLE: BROKERS_UNREACHABLE,
            Reach.SILENT: BROKERS_SILENT,
            Reach.REFUSES_LOGIN: OWN_LOGIN_REFUSED,
            Reach.ANSWERS: DiagnosisQuestion(
                "Is it the same cluster as the other side?",
                _ask_same_cluster,
                {
                    "yes": CLUSTERS_ARE_ONE,
                    "no": DiagnosisQuestion(
                        "Has every partition a leader?",
                        _ask_leaders,
                        {"no": PARTITIONS_WITHOUT_LEADER, "yes": NothingFound("the cluster is in order")},
                    ),
                },
            ),
        },
    ),
)
