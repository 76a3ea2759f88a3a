"""Creating topics and adding partitions: no request is larger than a controller takes."""

from __future__ import annotations

from kafka_dr.actions import topic_creation


def test_a_request_names_no_more_partitions_than_a_controller_takes() -> None:
    """KRaft refuses requests for more than 10,000; a single larger topic is left to the controller's own answer."""
    counts = {"a": 1_500, "b": 600, "c": 9_000, "d": 1}
    assert list(topic_creation._batches(counts)) == [["a"], ["b"], ["c"], ["d"]]
