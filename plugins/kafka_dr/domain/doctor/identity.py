"""Whether each connection leads to the cluster that it should lead to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from kafka_dr.domain.doctor.finding import InstallationFinding, finding_of
from kafka_dr.domain.readiness.blocker import one_cluster, worker_elsewhere

_CHECK = "cluster_identity"


@dataclass(frozen=True)
class SeenWorker:
    """A Connect cluster, and the Kafka cluster that it uses as its own.

    Attributes:
        connection: Airflow connection of its workers.
        target: alias of the cluster to which the flows in it write, which has to be its own.
        cluster_id: id of the cluster that it uses.
    """

    connection: str
    target: str
    cluster_id: str


@dataclass(frozen=True)
class OtherLogin:
    """A connection of another login to a cluster, such as the probe's, and the id of the cluster to which it leads."""

    connection: str
    alias: str
    cluster_id: str


def identity_findings(
    ids: Mapping[str, str],
    workers: Sequence[SeenWorker],
    earlier: Mapping[str, str],
    others: Iterable[OtherLogin] = (),
) -> Iterator[InstallationFinding]:
    """Yield findings about connections that lead to another cluster than they should.

    Args:
        ids: alias -> id of the cluster to which its connection leads; clusters that did not answer are missing.
        workers: Connect clusters that answered.
        earlier: alias -> id of the cluster, as the last run recorded it.
        others: connections of other logins that answered.
    """
    pairs = list(combinations(sorted(ids), 2))
    shared = [pair for pair in pairs if ids[pair[0]] == ids[pair[1]]]
    for one, other in shared:
        yield finding_of(_CHECK, f"{one} and {other}", one_cluster(one, other, ids[one]))
    wrong = [] if shared else [w for w in workers if ids.get(w.target, w.cluster_id) != w.cluster_id]
    used = {worker.target: worker.cluster_id for worker in wrong}
    swapped = {pair for pair in pairs if (used.get(pair[0]), used.get(pair[1])) == (ids[pair[1]], ids[pair[0]])}
    for one, other in sorted(swapped):
        yield _swapped(one, other, ids)
    explained = {alias for pair in (*shared, *swapped) for alias in pair}
    for worker in wrong:
        if worker.target not in explained:
            blocker = worker_elsewhere(worker.cluster_id, ids[worker.target])
            yield finding_of(_CHECK, f"{worker.connection} and {worker.target}", blocker)
    yield from _moved(ids, earlier, explained | used.keys())
    correct = {alias for alias in ids.keys() - explained - used.keys() if earlier.get(alias, ids[alias]) == ids[alias]}
    for login in others:
        if login.alias in correct and login.cluster_id != ids[login.alias]:
            yield _elsewhere(login, ids[login.alias])


def _swapped(one: str, other: str, ids: Mapping[str, str]) -> InstallationFinding:
    return InstallationFinding(
        _CHECK,
        f"{one} and {other}",
        f"The connections of {one} and {other} are swapped",
        f"that of {one} leads to cluster {ids[one]}, which the Connect cluster of {other} uses as its own, and that of"
        f" {other} to {ids[other]}",
        "Swap the two Airflow connections: as they are, a failover would fence the wrong cluster.",
    )


def _elsewhere(login: OtherLogin, cluster_id: str) -> InstallationFinding:
    return InstallationFinding(
        _CHECK,
        login.connection,
        f"The connection {login.connection} leads to another cluster than {login.alias}",
        f"cluster id {login.cluster_id}, that of {login.alias} is {cluster_id}",
        f"Correct bootstrap.servers of {login.connection}: as it is, what it proves holds for the other cluster.",
    )


def _moved(ids: Mapping[str, str], earlier: Mapping[str, str], known: Iterable[str]) -> Iterator[InstallationFinding]:
    for alias in sorted(earlier.keys() - set(known)):
        if ids.get(alias, earlier[alias]) != earlier[alias]:
            yield InstallationFinding(
                _CHECK,
                alias,
                f"The connection of {alias} leads to another cluster than in the last run",
                f"cluster id {ids[alias]}, recorded by the last run {earlier[alias]}",
                "Correct bootstrap.servers in the Airflow connection. If the cluster was replaced on purpose, start the"
                " next procedure: it records the new id.",
            )
