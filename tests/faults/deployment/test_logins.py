"""Logins by token, by certificate, and by other means on each side: round trips judged, refusals named."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.acls import ClusterAcls
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record_writer import RecordWriter, WriteAccepted, WriteRefused
from kafka_dr_spark.reading.windows import KafkaAccess, WindowReader, WindowUnreadable
from kafka_dr_spark.translation.case import TARGET, Limits, ReadWindow

from lab.environment.logins.kinds import ISSUER
from lab.environment.logins.set_up import start_issuer
from lab.environment.state import ALIASES, Lab
from lab.rehearsal.planned import wait_for
from lab.rehearsal.round_trip import Leaving, Returning
from tests.faults.deployment.one_broker import one_broker
from tests.faults.support.trips import stepped_trips
from tests.support.staged_lab import Stage

TOPIC = "orders"
SECRET = "sasl.oauthbearer.client.secret"
OF_BOTH = pytest.mark.parametrize("site", ["oidc", "certificates"], indirect=True)
BY_TOKEN = pytest.mark.parametrize("site", ["oidc"], indirect=True)


@pytest.mark.parametrize("logins", ["oidc", "certificates", "mixed"])
def test_there_and_back(logins: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Judged by ids; the fence names clients as the brokers do, and no secret is written down."""
    stage = Stage(fresh_lab("identity", airflow=False, logins=logins))
    before = {alias: stage.acls(alias) for alias in ALIASES}
    with stepped_trips(stage.lab.root, tmp_path, rate=300, scale=0.02, recorded=False) as trips:
        went = trips.leave(Leaving(standby=True, more=10))
        print(f"{logins}: {dict(went.figures)}", flush=True)
        assert went.passed, "\n".join(went.lines(limit=5))
        fenced = {entry[3] for entry in stage.acls("primary") - before["primary"] if "DENY" in entry}
        assert ("User:CN=producer" if logins == "certificates" else "User:producer") in fenced
        came = trips.come_back(Returning(more=10), writes=True)
        print(f"{logins}: {dict(came.figures)}", flush=True)
        assert came.passed, "\n".join(came.lines(limit=5))
    written = [*_texts(stage.lab.evidence), stage.lab.journal.read_bytes().decode("utf-8", "replace")]
    secrets = [stage.lab.load().passwords[name] for name in ("orchestrator", "probe", "producer", "consumer")]
    assert written and not any(secret in text for text in written for secret in secrets)
    notes = json.dumps(_plan(stage.lab)["unproven"])
    for told in ("in different ways", "no SCRAM user of consumer, producer"):
        assert (told in notes) is (logins == "mixed"), notes


def _texts(folder: Path) -> list[str]:
    return [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]


def _plan(lab: Lab) -> dict[str, Any]:
    """Return the plan of the first procedure that ended."""
    evidence = min(lab.evidence.glob("*/evidence.json"), key=lambda path: path.stat().st_mtime)
    return dict(json.loads(evidence.read_text())["plan"])


class Site:
    """One broker, and Switchback's clients of it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.config = lab.client_properties("primary", "orchestrator")
        KafkaCluster("primary", self.config).create_topic(TOPIC, 1)

    def logins(self, **changed: str) -> dict[str, Callable[[], object]]:
        """Return how each client library logs in and asks something, with settings changed."""
        config = self.config | changed
        cluster = KafkaCluster("primary", config)
        return {
            "librdkafka": lambda: cluster.cluster_id(timeout=5),
            "kafka-python": lambda: cluster.every_broker.acl_entries([1])[1],
            "Spark": lambda: read_by_spark(config),
        }

    def writer(self, user: str) -> RecordWriter:
        """Return a writer that logs in as a user."""
        return RecordWriter(self.lab.client_properties("primary", user), "primary")


def read_by_spark(config: dict[str, str]) -> object:
    """Read the topic's first record as a Spark task does."""
    with WindowReader(KafkaAccess(None, config), Limits(source_readable=False, deadline_seconds=5)) as reader:
        return reader.read([ReadWindow(TARGET, TOPIC, 0, 0, 1)])


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One broker with a kind of login."""
    with one_broker(tmp_path_factory.mktemp("broker"), request.param) as lab:
        yield Site(lab)


@OF_BOTH
def test_every_client_library_logs_in(site: Site) -> None:
    """In tasks, for each broker, and in Spark."""
    written = site.writer("producer").write(TOPIC, 0, b"first")
    assert isinstance(written, WriteAccepted), written
    answers = {library: ask() for library, ask in site.logins().items()}
    assert answers["librdkafka"] == site.lab.load().cluster_ids["primary"]
    assert any(entry.principal.endswith("producer") for entry in answers["kafka-python"])  # type: ignore[union-attr]


@OF_BOTH
def test_the_fence_keeps_out_the_principal_of_the_login(site: Site) -> None:
    """Named as the brokers name it; Switchback, which the fence spares, goes on writing."""
    by_certificate = site.config["security.protocol"] == "SSL"
    principal = "User:CN=producer" if by_certificate else "User:producer"
    acls = ClusterAcls(KafkaCluster("primary", site.config))
    denial = AclEntry("topic", TOPIC, "literal", principal, "*", "write", "deny")
    assert principal in {entry.principal for entry in acls.entries()}
    acls.add([denial])
    try:
        refused = site.writer("producer").probe(TOPIC, 0)
        assert isinstance(refused, WriteRefused) and refused.by_authorization, refused
        assert isinstance(site.writer("orchestrator").write(TOPIC, 0, b"spared"), WriteAccepted)
    finally:
        acls.remove([denial])
    assert isinstance(site.writer("producer").write(TOPIC, 0, b"lifted"), WriteAccepted)


@BY_TOKEN
@pytest.mark.parametrize("library", ["librdkafka", "kafka-python"])
def test_a_wrong_secret_is_named_and_final(site: Site, library: str) -> None:
    """The issuer's words, no secret; a step does not wait for what will not change."""
    with pytest.raises(KafkaUnavailable, match="the issuer of tokens gave Switchback no token") as refused:
        site.logins(**{SECRET: "wr0ng-s3cret"})[library]()
    assert not refused.value.may_pass and "invalid_client" in str(refused.value)
    assert "wr0ng-s3cret" not in str(refused.value)


@BY_TOKEN
def test_spark_names_the_login_too(site: Site) -> None:
    """In its own words; no secret."""
    with pytest.raises(WindowUnreadable, match="no broker answers.*the login") as refused:
        site.logins(**{SECRET: "wr0ng-s3cret"})["Spark"]()
    assert "wr0ng-s3cret" not in str(refused.value)


@BY_TOKEN
def test_an_issuer_that_is_away_may_come_back(site: Site) -> None:
    """Who is logged in goes on; who is not waits, and logs in once the issuer answers again."""
    before = KafkaCluster("primary", site.config)
    before.cluster_id(timeout=5)
    pid = site.lab.processes.pid(ISSUER)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert wait_for(lambda: site.lab.processes.pid(ISSUER) is None, 10)
    try:
        for library in ("librdkafka", "kafka-python"):
            with pytest.raises(KafkaUnavailable, match="the issuer of tokens does not answer") as away:
                site.logins()[library]()
            assert away.value.may_pass
        assert before.topics([TOPIC], timeout=5)
    finally:
        start_issuer(site.lab)
    for library in ("librdkafka", "kafka-python"):
        assert site.logins()[library]()


@OF_BOTH
def test_brokers_tell_how_they_name_certificates(site: Site) -> None:
    """Which `make_topology --ask-brokers` uses; the lab's brokers take the whole subject."""
    assert KafkaCluster("primary", site.config).mapping_rules() == {"DEFAULT"}
