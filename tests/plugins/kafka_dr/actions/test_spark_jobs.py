"""What is handed to Spark's jobs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions import spark_jobs
from kafka_dr.actions.spark_jobs import write_frame
from kafka_dr.errors import Contradiction


@pytest.mark.parametrize("column", ["topic", "target_topic"])
@pytest.mark.parametrize("name", ["../../etc", "/orders", "or\0ders", "", "..", "a" * 250])
def test_a_topic_that_kafka_would_not_make_is_refused(column: str, name: str, tmp_path: Path) -> None:
    """Whoever answers in a cluster's place could else choose where a job writes."""
    frame = pd.DataFrame({"topic": ["orders", "orders"], "target_topic": ["orders", None], column: ["orders", name]})
    with pytest.raises(Contradiction, match="A topic has a name that Kafka does not allow") as refused:
        write_frame(tmp_path, "bounds", frame)
    assert repr(name)[:20] in refused.value.seen and refused.value.next_step and not list(tmp_path.iterdir())


def test_legal_topics_are_written(tmp_path: Path) -> None:
    """A partition without a topic on the target has none."""
    write_frame(tmp_path, "bounds", pd.DataFrame({"topic": ["a-.B_9", "x"], "target_topic": ["a" * 249, None]}))
    assert pd.read_parquet(tmp_path / "bounds.parquet")["topic"].tolist() == ["a-.B_9", "x"]


@pytest.mark.parametrize("secret", [None, "shared-by-the-cluster"])
def test_a_spark_cluster_gets_its_secret_by_environment_alone(
    secret: str | None, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings stand on the command line, the secret does not; Spark in the task needs neither."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(bench.connections, "spark_secret", lambda _: secret, raising=False)
    monkeypatch.setattr(
        spark_jobs,
        "SparkSubmitOperator",
        lambda **given: asked.append(given) or SimpleNamespace(execute=lambda _: None),
    )
    spark_jobs.submit_job(bench.opened(), {}, "translate_offsets", Path("in"), Path("out"), "")
    (given,) = asked
    environment, settings = given.pop("env_vars"), given["conf"]
    assert environment.get("KAFKA_DR_SPARK_SECRET") == secret
    assert str(secret) not in str(given) or secret is None
    protected = {"spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"}
    assert {name for name, value in settings.items() if value == "true"} == (protected if secret else set())
    assert settings.get("spark.network.crypto.saslFallback") == ("false" if secret else None)


@pytest.mark.parametrize("job", ["find_stranded_records", "assess_data_loss", "translate_offsets"])
def test_only_jobs_that_export_get_the_login_of_the_store_and_by_environment_alone(
    job: str, make_bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place stands in the job's input; the store's options are in no argument, setting or file."""
    bench = make_bench(store={"uri": "s3://dr/production", "connection": "switchback_store"})
    options, asked = {"key": "dr", "secret": "hunter2"}, []
    monkeypatch.setattr(bench.connections, "archive_options", lambda _: options)
    monkeypatch.setattr(bench.connections, "check_spark", lambda _: None, raising=False)
    monkeypatch.setattr(bench.connections, "spark_secret", lambda _: None, raising=False)

    def submitted(**given: Any) -> Any:
        asked.append(given)
        return SimpleNamespace(execute=lambda _: Path(given["application_args"][3]).mkdir())

    monkeypatch.setattr(spark_jobs, "SparkSubmitOperator", submitted)
    procedure = bench.opened()
    monkeypatch.setattr(procedure.systems.store, "put", lambda *_: None)
    output = spark_jobs.run_spark_job(procedure, {}, job, lambda _: {"isolation": "read_committed"}, "")
    (given,) = asked
    exports = job != "translate_offsets"
    assert json.loads(given.pop("env_vars").get("KAFKA_DR_STORE_OPTIONS", "null")) == (options if exports else None)
    text = output.with_name(f"{output.name}.input").joinpath("job.json").read_text(encoding="utf-8")
    assert "hunter2" not in str(given) + text
    place = f"s3://dr/production/{procedure.id}/{output.name}" if exports else None
    assert json.loads(text).get("export_to") == place
