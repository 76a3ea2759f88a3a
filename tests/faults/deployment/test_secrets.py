"""Twenty secrets stand nowhere after failing runs and a completed one among parrots; the search itself is tried."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from kafka_dr.hooks.journal.journal import Journal

from lab.environment import airflow_settings
from lab.environment.airflow_api import RequestRefused
from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.faults.support.attacked_run import DAG_ID, GATE, AttackedRun, awaited, seed
from tests.faults.support.planted_secrets import (
    CommandLines,
    Parrot,
    Places,
    RoutingParrot,
    Secrets,
    TellingConnect,
    TokenParrot,
    parrot,
)

MARKER = "m4rk3d-by-the-test"


@dataclass
class Planted:
    """A lab full of secrets."""

    lab: Lab
    secrets: Secrets
    places: Places

    def run(self, change: Callable[[dict[str, Any]], None], approve: bool, seconds: float = 240.0) -> dict[str, Any]:
        """A run with another topology; its evidence, or nothing where it could leave none."""
        text = self.lab.topology.read_text()
        changed = yaml.safe_load(text)
        change(changed)
        self.lab.topology.write_text(yaml.safe_dump(changed, sort_keys=False))
        try:
            run = AttackedRun.start(self.lab, approval_wait_seconds=30)
            if approve:
                approved_if_asked(run)
            awaited(lambda: ended_without_retries(run), "end of the run", seconds)
            found = self.lab.evidence / run.id / "evidence.json"
            return json.loads(found.read_text()) if found.exists() else {}
        finally:
            self.lab.topology.write_text(text)


def ended_without_retries(run: AttackedRun) -> bool:
    """Whether a run has ended; a task that failed once has said all, and is not tried again."""
    for task in run.user("viewer").tasks(DAG_ID, run.run_id):
        if task["state"] == "up_for_retry":
            run.mark(task["task_id"], state="failed")
    return run.user("viewer").run(DAG_ID, run.run_id)["state"] in ("success", "failed")


def approved_if_asked(run: AttackedRun) -> None:
    """Some runs end before they ask."""
    try:
        run.answered("approver")
    except (TimeoutError, RequestRefused):
        return


def plant(lab: Lab, secrets: Secrets, parrots: dict[str, str], good: Callable[[Lab], dict[str, Any]]) -> dict[str, Any]:
    """The lab's connections with secrets in every field that takes one, and broken ones beside them."""
    found = good(lab)
    ssl = {"ssl.key.password": secrets["private key password"], "ssl.keystore.password": secrets["keystore password"]}
    for name in ("kafka_primary", "kafka_standby"):
        found[name]["extra"] |= ssl
    for alias in ("primary", "standby"):
        found[f"connect_{alias}"] |= secrets.login("connect", "connect password")
    found["drain_app"] = http(parrots["parrot"], secrets.login("drain", "drain hook password"))
    found["spark_default"] |= secrets.login("spark", "spark password")
    found["spark_default"] |= {"extra": {"api_token": secrets["spark api token"]}}
    found["airflow_api"] |= secrets.login("switchback", "airflow password")
    kafka, token = found["kafka_primary"]["extra"], secrets["journal password in a query"]
    certificate = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"
    pem = {"security.protocol": "SASL_SSL", "ssl.key.pem": secrets.pem(), "ssl.certificate.pem": certificate}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="x" password="{secrets["jaas password"]}";'
    java = {"sasl.jaas.config": jaas, "sasl.oauthbearer.client.secret": secrets["oauth client secret"]}
    wrong = {"sasl.password": secrets["kafka password that is wrong"]}
    torn = '{"bootstrap.servers": "127.0.0.1:1", "sasl.password": "' + secrets["broken extra"]
    extras = {"kafka_wrong": kafka | wrong, "kafka_java": kafka | java, "kafka_text": torn, "kafka_pem": kafka | pem}
    away = f"postgresql+psycopg://journal:{secrets['journal password']}@127.0.0.1:1/journal?password={token}"
    journals = {"journal_away": away, "journal_nowhere": f"sqlite:////nowhere/journal.db?password={token}"}
    connect, api = secrets.login("connect", "connect password"), secrets.login("switchback", "airflow password")
    logged_in = f"http://connect:{secrets['connect password in its address']}@127.0.0.1:1"
    return {
        **found,
        **{name: {"conn_type": "kafka", "extra": extra} for name, extra in extras.items()},
        **{name: {"conn_type": "generic", "extra": {"url": url}} for name, url in journals.items()},
        "connect_userinfo": http(logged_in, {}),
        "connect_parrot": http(parrots["parrot"], connect),
        "connect_telling": http(parrots["connect"], connect),
        "routing": http(parrots["routing"], secrets.login("routing", "routing password")),
        "api_wrong": http(lab.airflow_url, secrets.login("switchback", "airflow password that is wrong")),
        "api_parrot": http(parrots["api"], api),
        "spark_yarn": {"conn_type": "spark", "host": "yarn", **secrets.login("spark", "spark password")},
    }


def http(host: str, login: dict[str, str]) -> dict[str, Any]:
    """A connection over HTTP."""
    return {"conn_type": "http", "host": host, **login}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """The lab, with Spark's event log on, and every command line of this machine watched."""
    lab, events = Lab(tmp_path_factory.mktemp("lab")), tmp_path_factory.mktemp("spark")
    (events / "log").mkdir()
    (events / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file://{events / 'log'}\n"
    )
    with ExitStack() as stack:
        given = {"airflow token": "eyJ0b2tlbi5vZi10aGUtcGFycm90"}
        trace = (
            'org.apache.kafka.common.config.ConfigException: Invalid value ScramLoginModule required password="{}"; for'
            " sasl.jaas.config\n\tat x.Y.z(Y.java:1)"
        )
        good, settings = airflow_settings.airflow_connections, airflow_settings.own_environment
        kept: dict[str, Any] = {}

        def connections(lab: Lab) -> dict[str, Any]:
            """Planted once the lab's own passwords are known."""
            if not kept:
                own = lab.load().passwords
                kafka = {"kafka password": own["orchestrator"], "probe password": own["probe"]}
                kept["secrets"] = Secrets(given | kafka | {"airflow password": own["airflow_switchback"]})
                told = kept["secrets"]["jaas password"]
                kept["parrots"] = {
                    "parrot": stack.enter_context(parrot(Parrot)),
                    "routing": stack.enter_context(parrot(RoutingParrot)),
                    "api": stack.enter_context(parrot(TokenParrot, token=given["airflow token"])),
                    "connect": stack.enter_context(
                        parrot(TellingConnect, behind=lab.connect_url("standby"), trace=trace.format(told))
                    ),
                }
            return plant(lab, kept["secrets"], kept["parrots"], good)

        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(airflow_settings, "airflow_connections", connections)
        patch.setattr(airflow_settings, "own_environment", lambda lab: settings(lab) | {"SPARK_CONF_DIR": str(events)})
        up(lab.root)
        seed(lab)
        command_lines = stack.enter_context(CommandLines().watching())
        yield Planted(lab, kept["secrets"], Places(lab, command_lines, events / "log"))
    down(lab.root)


def naming(*place: str, connection: str) -> Callable[[dict[str, Any]], None]:
    """A change of the topology: this place names another connection."""

    def change(topology: dict[str, Any]) -> None:
        for part in place[:-1]:
            topology = topology[int(part) if part.isdigit() else part]
        topology[place[-1]] = connection

    return change


SOURCE, TARGET = ("clusters", "primary", "connection"), ("clusters", "standby", "connection")
CONNECT, API, SPARK = ("flows", "0", "connect"), ("airflow_api", "connection"), ("spark", "connection")
#: The place of the topology that names another connection, that connection, and what the run says of it.
BROKEN = {
    "a wrong password": (SOURCE, "kafka_wrong", "uthenticat"),
    "Java's settings": (SOURCE, "kafka_java", "sasl.jaas.config: not allowed"),
    "an extra that is no JSON": (SOURCE, "kafka_text", "names no cluster"),
    "a broken private key": (TARGET, "kafka_pem", "creating a Kafka client"),
    "a login in an address": (CONNECT, "connect_userinfo", "user or password"),
    "Connect that repeats the login": (CONNECT, "connect_parrot", "HTTP 403"),
    "a stack trace with a JAAS line": (CONNECT, "connect_telling", "Invalid value ScramLoginModule"),
    "a wrong password of Airflow's": (API, "api_wrong", "no token"),
    "another Airflow, which would repeat the token": (API, "api_parrot", "names another API server"),
    "a YARN that sends secrets unencrypted": (SPARK, "spark_yarn", "would send the secret of Spark's jobs unencrypted"),
}


@pytest.mark.parametrize(("place", "connection", "said"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_ends_the_run_with_its_reason(
    planted: Planted, place: tuple[str, ...], connection: str, said: str
) -> None:
    """The error is the one that was meant to carry a secret; Airflow's API is asked at the gate only."""
    steps = (GATE,) if place == API else ("open_procedure", "check_readiness")
    evidence = planted.run(naming(*place, connection=connection), approve=place == API)
    assert evidence["outcome"] in ("refused", "returned") and evidence["failing_step"] in steps
    failed = [row for row in evidence["steps"] if row["id"] == evidence["failing_step"]]
    assert failed and said in str(failed)


@pytest.mark.parametrize("connection", ["journal_away", "journal_nowhere"])
def test_without_a_journal_the_run_says_so_in_its_log(planted: Planted, connection: str) -> None:
    """There can be no evidence; the task's log names the database without its secrets."""
    assert planted.run(naming("journal", "connection", connection=connection), approve=False) == {}
    logs = sorted(
        (planted.lab.logs / "airflow").rglob("task_id=open_procedure/*.log"), key=lambda path: path.stat().st_mtime
    )
    assert "the journal is not usable" in logs[-1].read_text()


def test_a_failover_completes_among_parrots(planted: Planted) -> None:
    """The drain hook repeats its login in an error, the routing service in its answer; Spark writes its event log."""

    def change(topology: dict[str, Any]) -> None:
        topology["routing"] = {"kind": "http", "connection": "routing"}

    evidence = planted.run(change, approve=True)
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    assert "HTTP 403" in str(evidence["steps"])
    assert list(planted.places.events.rglob("*"))


def test_no_secret_stands_anywhere(planted: Planted) -> None:
    """Twenty secrets, in every form, in every place: 0 hits."""
    assert len(planted.secrets.values) == 20
    needles = planted.secrets.needles()
    searched = {kind: sum(len(text) for _, text in content()) for kind, content in planted.places.kinds().items()}
    print(f"{len(needles)} needles; bytes searched: {searched}")
    assert all(searched.values()), searched
    assert planted.places.hits(needles) == []


def forget(planted: Planted, kind: str) -> None:
    """Let the marker come to stand in one kind of place, as a leak would."""
    lab = planted.lab
    leaks: dict[str, Callable[[], Any]] = {
        "task logs": lambda: append(next((lab.logs / "airflow").rglob("task_id=forecast/*.log"))),
        "logs of Airflow's components": lambda: append(lab.logs / "airflow-scheduler.out"),
        "XCom": lambda: leak_by_api(lab, "POST", "xcomEntries"),
        "rendered fields": (
            lambda: AttackedRun(lab, "").sql(
                "UPDATE rendered_task_instance_fields SET rendered_fields = ?", json.dumps({"subject": MARKER})
            )
        ),
        "the rest of Airflow's database": lambda: leak_by_api(lab, "PATCH", "note"),
        "the journal": lambda: Journal(f"sqlite:///{lab.journal}").append("p", "forecast", "note", 0, {"seen": MARKER}),
        "evidence": lambda: pd.DataFrame({"error": [MARKER]}).to_parquet(lab.evidence / "leak.parquet"),
        "command lines": lambda: subprocess.run(
            [sys.executable, "-c", "import time; time.sleep(0.5)", MARKER], check=True
        ),
        "Spark's event logs": lambda: (planted.places.events / "app").write_text(MARKER),
    }
    leaks[kind]()


def append(path: Path) -> None:
    """One more line."""
    with path.open("a") as file:
        file.write(f"\n{MARKER}\n")


def leak_by_api(lab: Lab, method: str, what: str) -> None:
    """Somebody writes the marker over the API, on the newest run."""
    operator = AttackedRun(lab, "").user("operator")
    newest = operator.send("GET", f"/dags/{DAG_ID}/dagRuns?order_by=-run_after&limit=1")["dag_runs"][0]["dag_run_id"]
    run = AttackedRun(lab, newest)
    if method == "PATCH":
        operator.send("PATCH", run.path, {"note": MARKER})
    else:
        run.forge("forecast", MARKER, key="leak")


@pytest.mark.parametrize("kind", list(Places(Lab("."), CommandLines(), Path()).kinds()))
def test_the_search_finds_a_leak(planted: Planted, kind: str) -> None:
    """A marker in one kind of place is found there: 0 hits is no blindness."""
    forget(planted, kind)
    found = planted.places.hits({"marker": MARKER.encode()})
    assert kind in {hit.place for hit in found}


def test_a_secret_is_found_in_the_form_that_http_gives_it(planted: Planted) -> None:
    """A basic login is base64 of user and password: the search knows both."""
    needles = planted.secrets.needles()
    assert sum(name.endswith("as HTTP sends it") for name in needles) >= 5
    assert all(len(needle) >= 16 for needle in needles.values())
