"""The common plan of a lost cluster: what two pairs must not do both, what is left behind, and its page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.loss.lost_cluster import (
    LostClusterPlan,
    PairClaims,
    PairPart,
    forbidden_ends,
    left_behind,
    lost_cluster_markdown,
    lost_cluster_sentences,
    lost_cluster_to_do,
    pair_outcomes,
)

READS = st.frozensets(st.tuples(st.sampled_from("gh"), st.sampled_from(["a", "b", "c"])))
CLAIMS = st.lists(
    st.builds(PairClaims, st.sampled_from(["us", "eu"]), READS, READS, st.frozensets(st.sampled_from("xyz"))),
    max_size=4,
)
FLOWS = {"patterns": [], "flows": [], "readers": [], "unreadable": []}


def claim(target: str, *placed: tuple[str, str], unplaced: Any = (), opened: Any = ()) -> PairClaims:
    """What a pair takes to its target."""
    return PairClaims(target, frozenset(placed), frozenset(unplaced), frozenset(opened))


def part(target: str, **changes: Any) -> PairPart:
    """One pair's part of a plan."""
    made = PairPart(
        f"u-{target}", target, f"digest-{target}", target == "us", f"{target}:9092", 3, 5, {}, ["g"], 1, None
    )
    return replace(made, **changes)


def plan(*parts: PairPart, **changes: Any) -> LostClusterPlan:
    """A common plan."""
    made = LostClusterPlan("lost_cluster-1", "hub", "us", "it burns", "default", parts, {}, FLOWS)
    return replace(made, **changes)


def test_a_group_may_be_split_only_by_topic() -> None:
    """Records of each region on that region; the same topic on two clusters is refused."""
    us, eu = claim("us", ("g", "us.events")), claim("eu", ("g", "eu.events"))
    assert not list(forbidden_ends([us, eu], one_name=False))
    (text,) = forbidden_ends([us, claim("eu", ("g", "us.events"), ("h", "x"))], one_name=False)
    assert "served on us and eu" in text and "g in us.events" in text and "h in x" not in text


def test_one_topic_takes_writes_on_one_cluster() -> None:
    """Where names do not tell clusters apart."""
    claims = [claim("us", opened=["orders"]), claim("eu", opened=["orders", "own"])]
    assert not list(forbidden_ends(claims, one_name=False))
    (text,) = forbidden_ends(claims, one_name=True)
    assert "the same topics on us and eu: orders" in text


@given(claims=CLAIMS, one_name=st.booleans())
def test_without_refusal_every_read_has_one_place(claims: list[PairClaims], one_name: bool) -> None:
    """Or is named as left behind."""
    left = {(group, topic) for group, topics in left_behind(claims).items() for topic in topics}
    known = frozenset[tuple[str, str]]().union(*(one.placed | one.unplaced for one in claims))
    if list(forbidden_ends(claims, one_name)):
        return
    for read in known:
        assert sum(read in one.placed for one in claims) + (read in left) == 1


def test_the_page_shows_each_pair_and_what_no_step_does() -> None:
    """Loss, groups, whose clients are pointed elsewhere by hand, who is left behind, and each pair's own page."""
    made = plan(
        part("us", translation={"digest": "t", "classes": {}, "positions": 4, "exact": 1}, inexact=[("g", "x-0")]),
        part("eu", possible=None, from_others={"us.events": "us"}),
        left={"g": ["asia.events"]},
    )
    text = lost_cluster_markdown(made.as_dict(), made.digest, {"u-us": "OWN PAGE", "u-eu": "OTHER PAGE"})
    assert "| us | 3 | 5 | 1 | 1 of 4 | 1 | u-us |" in text and "| eu | 3 | no bound | 1 | not translated yet |" in text
    assert "The routing record leads to us." in text and "eu (eu:9092)" in text.replace("at eu", "eu")
    assert "g (asia.events)" in text and "us.events (us)" in text and "| g | x-0 |" in text
    assert "OWN PAGE" in text and "OTHER PAGE" in text and made.digest in text


def test_the_digest_covers_each_pairs_plan() -> None:
    """Another plan of one pair, or another translation, is another plan."""
    made = plan(part("us"), part("eu"))
    assert made.digest != plan(part("us"), part("eu", plan_digest="other")).digest
    assert made.digest != plan(part("us"), part("eu", translation={"digest": "t"})).digest


def evidence(outcome: str, step: dict[str, Any], reason: str = "why") -> dict[str, Any]:
    """Evidence of a run of lost_cluster."""
    return {
        "source": "hub",
        "outcome": outcome,
        "failing_step": None if outcome == "completed" else "follow_pairs",
        "reason_for_outcome": reason,
        "plan": plan(part("us"), part("eu")).as_dict(),
        "steps": [{"id": "follow_pairs", "figures": {}, "notes": [], **step}],
    }


def test_the_evidence_states_each_pair() -> None:
    """Completed pairs, and those that were not moved, with what to do."""
    done = evidence("completed", {"figures": {"evidence_digests": {"u-us": "a", "u-eu": "b"}}})
    assert pair_outcomes(done["steps"]) == {"u-us": "completed", "u-eu": "completed"}
    assert lost_cluster_sentences(done)[1:] == ["To us: completed.", "To eu: completed."]
    assert "failback" in lost_cluster_to_do(done)[0]
    stopped = evidence("failed", {"notes": [{"not_moved": {"u-eu": "failed"}, "final": False}]})
    assert lost_cluster_sentences(stopped)[1:] == ["To us: see u-us.", "To eu: failed."]
    assert "clear follow_pairs" in lost_cluster_to_do(stopped)[1]
    refused = evidence("refused", {}) | {"steps": [], "plan": None}
    assert "before any client was moved" in lost_cluster_sentences(refused)[0]
    assert "unplanned_failover" in lost_cluster_to_do(evidence("returned", {}))[1]
