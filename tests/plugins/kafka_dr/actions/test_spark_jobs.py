"""What is handed to Spark's jobs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
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
