"""The evidence page of a comparison: result, warning, what to do."""

from __future__ import annotations

from typing import Any

from kafka_dr.domain.reconciliation.sentences import difference_warnings, reconcile_sentences, reconcile_to_do
from kafka_dr.vocabulary import Step

NONE = dict.fromkeys(
    ("missing", "extra", "altered", "repeated", "behind", "older", "cut", "superseded", "differing"), 0
)


def evidence(outcome: str = "completed", **figures: Any) -> dict[str, Any]:
    """Return the evidence of a comparison with these counts; without any, the job made no result."""
    done = {**NONE, "equal": 1200, "partitions_that_differ": [], "folder": {"folder": "reconcile_clusters-3"}}
    state = "done" if outcome == "completed" else "failed"
    steps = [{"id": Step.COMPARE_RECORDS, "state": state, "figures": done | figures}]
    told = {"source": "west", "target": "east", "outcome": outcome, "steps": steps}
    stopped = {"failing_step": "compare_records", "reason_for_outcome": "Spark did not complete it."}
    return told | ({"failing_step": None, "reason_for_outcome": ""} if state == "done" else stopped)


def test_equal_clusters() -> None:
    """There is nothing to do."""
    said = reconcile_sentences(evidence())
    assert said == [
        "1,200 records of west were found on east, and no record differs.",
        "The comparison changed nothing on either cluster.",
        "Every record between the bounds was judged.",
    ]
    assert reconcile_to_do(evidence()) == ["Nothing."] and difference_warnings(NONE, None, "east") == []


def test_differences() -> None:
    """They are counted, with the partitions that have them and the place of the lists."""
    rows = [{"topic": "orders", "partition": p} for p in range(7)]
    told = evidence(missing=1500, altered=1, differing=120, partitions_that_differ=rows, behind=2)
    result, _, left = reconcile_sentences(told)
    assert "others differ on 120 partitions (orders-0, orders-1, orders-2, orders-3, orders-4 and others)" in result
    assert result.endswith(": 1,500 missing on the target, 1 with another content on the target.")
    assert left == "Not judged: 2 records had not been proven to be on east yet."
    assert "reconcile_clusters-3/differences" in reconcile_to_do(told)[0]
    (warning,) = difference_warnings(told["steps"][0]["figures"], {"absent": []}, "east")
    assert warning.startswith("Records differ between the source and east: 1,500 missing")


def test_topics_that_the_target_lacks() -> None:
    """They are a warning, whether or not a record differs, and somebody has to find out why."""
    told = evidence()
    told["steps"].append({"id": Step.SET_BOUNDS, "state": "done", "figures": {"absent": ["born", "new"]}})
    assert reconcile_to_do(told) == ["Find out by diagnose_replication why east lacks born, new."]
    assert difference_warnings(NONE, {"absent": ["born"]}, "east") == ["east lacks 1 topic of the flow: born."]


def test_a_comparison_that_was_not_made() -> None:
    """Its reason is said, and no record counts as compared."""
    told = evidence("refused")
    assert reconcile_sentences(told)[0] == "The comparison of west with east stopped at compare_records."
    assert reconcile_sentences(told)[2] == "No record was judged."
    assert reconcile_to_do(told) == ["Spark did not complete it.", "Mend the cause, then start a new run."]
    assert difference_warnings(None, None, "east") == []
