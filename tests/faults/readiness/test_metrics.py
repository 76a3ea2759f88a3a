"""Every series that rules and page may name is emitted by a real lab, while a procedure runs and after its end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
import yaml
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from kafka_dr.domain.metrics.series import PREFIX, SERIES

from lab.environment.airflow_settings import airflow_connections
from lab.environment.brokers import admin_client
from lab.environment.connect import call_worker, connector_name
from lab.environment.production.certificates import LabAuthority
from lab.environment.state import METRICS, Lab
from lab.rehearsal.run import run_dag
from tests.faults.readiness.one_check import SOURCE, TARGET, check, pass_drill
from tests.faults.support.scene import until
from tests.faults.support.stepping import more_connections_path
from tests.support.metrics.site import samples_in

CONF = {"source": SOURCE, "target": TARGET, "reason": "metrics"}
Seen = dict[tuple[str, ...], set[float]]


class MeteredLab:
    """A lab with Airflow, whose metrics go to the address and to a file."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.file = lab, lab.root / "switchback.prom"
        self.seconds: list[float] = []
        topology = yaml.safe_load(lab.topology.read_text())
        topology["metrics"]["file"] = str(self.file)
        for flow in topology["flows"]:
            flow["readiness"] = {"lag_records": 1_000_000, "lag_bytes": 1_000_000_000}
        # The recorder's process shows life where notices are sent; nothing answers at this route's connection.
        topology["notifications"] = [{"kind": "webhook", "connection": "nowhere"}]
        lab.topology.write_text(yaml.safe_dump(topology))
        self._give_a_certificate()
        admin = admin_client(lab, SOURCE)
        (made,) = admin.create_topics([NewTopic("orders", 2, 1)]).values()
        made.result()
        producer = Producer(lab.client_properties(SOURCE, "admin"))
        for number in range(100):
            producer.produce("orders", str(number), partition=number % 2)
        assert producer.flush(30) == 0
        (moved,) = admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions("readers", [TopicPartition("orders", 0, 7)])]
        ).values()
        moved.result()

    def _give_a_certificate(self) -> None:
        """Name a CA in the connection that checks read: this lab has no TLS, and so no certificate of its own."""
        authority = LabAuthority(self.lab.root / "ca")
        authority.create_once()
        connection = airflow_connections(self.lab)[f"kafka_{TARGET}"]
        extra = connection["extra"] | {"ssl.ca.location": str(authority.certificate)}
        more_connections_path(self.lab).write_text(json.dumps({f"kafka_{TARGET}": connection | {"extra": extra}}))

    def scrape(self, token: str | None = None) -> requests.Response:
        """One scrape, as Prometheus makes it."""
        token = self.lab.load().passwords[METRICS] if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return requests.get(f"{self.lab.airflow_url}/switchback/metrics", headers=headers, timeout=30)

    def values(self) -> dict[tuple[str, ...], float]:
        """What one scrape gives."""
        began = time.monotonic()
        answer = self.scrape()
        self.seconds.append(time.monotonic() - began)
        assert answer.status_code == 200, answer.text
        return samples_in(answer.text)

    def ask_reverse_flow(self, what: str) -> None:
        """Stop or resume the source connector of the flow back: while it does not run, no flow is at rest."""
        name = connector_name(TARGET, SOURCE, "source")
        call_worker(self.lab, SOURCE, "PUT", f"/connectors/{name}/{what}").raise_for_status()

    @contextmanager
    def scraped(self) -> Iterator[Seen]:
        """Scrape all the time inside this context; give the values of each series that were seen."""
        seen: Seen = {}
        failures: list[BaseException] = []
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(0.3):
                try:
                    for key, value in self.values().items():
                        seen.setdefault(key, set()).add(value)
                except (AssertionError, requests.RequestException) as failure:
                    failures.append(failure)

        scraper = threading.Thread(target=work)
        scraper.start()
        try:
            yield seen
        finally:
            ended.set()
            scraper.join()
            took = sorted(self.seconds)
            print(f"{len(took)} scrapes: median {took[len(took) // 2]:.2f} s, longest {took[-1]:.2f} s", flush=True)
        assert failures == []


def test_a_lab_emits_every_series(fresh_lab: Callable[..., Path]) -> None:
    """By its address while a planned failover runs; those that are true for longer also by the file."""
    metered = MeteredLab(Lab(fresh_lab("identity")))
    assert metered.scrape("").status_code == metered.scrape("wrong").status_code == 401
    until(lambda: ("switchback_watcher_last_sign_timestamp_seconds",) in metered.values(), "the watcher's life", 120.0)
    with metered.scraped() as seen:
        pass_drill(metered.lab)
        until(lambda: check(metered.lab)["ages"].get("checkpoint"), "a checkpoint", 120.0, pause=1.0)
        named = {key[0].removeprefix(PREFIX) for key in samples_in(metered.file.read_text())}
        assert not named & {name for name, series in SERIES.items() if series.live}
        assert run_dag(metered.lab, "planned_failover", CONF, approve_as="approver", timeout=400) == 0
        metered.ask_reverse_flow("stop")
        until(lambda: check(metered.lab)["if_now"]["rereads"] is not None, "the forecast by the run", 60.0, pause=1.0)
        until(lambda: (f"{PREFIX}forecast_reread_records", SOURCE, TARGET) in seen, "a scrape of the forecast", 30.0)
        metered.ask_reverse_flow("resume")
        until(lambda: check(metered.lab)["at_rest"], "the flow to be at rest", 60.0, pause=1.0)
        until(lambda: (f"{PREFIX}recorder_last_sign_timestamp_seconds",) in seen, "the recorder's life", 90.0)
    by_file = {key[0].removeprefix(PREFIX) for key in samples_in(metered.file.read_text())}
    assert by_file <= set(SERIES) and {key[0].removeprefix(PREFIX) for key in seen} == set(SERIES)
    for live in ("pair_held", "procedure_running", "fence_on", "gate_open"):
        assert seen[f"{PREFIX}{live}", SOURCE, TARGET] == {0, 1}, live
    assert all(0 < left <= 600 for left in seen[f"{PREFIX}fence_seconds_left", SOURCE, TARGET])
    ended = metered.values()
    assert ended[f"{PREFIX}procedure_outcome", "planned_failover", "completed", SOURCE, TARGET] == 1
    assert ended[f"{PREFIX}last_run_downtime_seconds", SOURCE, TARGET] > 0
    assert ended[f"{PREFIX}flow_at_rest", SOURCE, TARGET] == 1
    steps = {key[3] for key in seen if key[0] == f"{PREFIX}procedure_info"}
    assert {"fence_producers", "approve_failover"} <= steps, steps
