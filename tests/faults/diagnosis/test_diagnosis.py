"""Each end of diagnose_replication's trees, provoked on a real lab and named rightly.

Two faults at once are both named; faults that look alike are told apart; a healthy flow has no finding. Every case
takes back what it changed, and the next begins with nothing found.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.diagnosis.diagnosed_site import DiagnosedSite, diagnosed_site, figures_of, found
from tests.faults.diagnosis.flow_faults import COMMON, hidden_and_excluded
from tests.faults.diagnosis.stalled_flows import STALLED

CASES = COMMON | STALLED


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiagnosedSite]:
    """A flow without a finding under identity naming."""
    with diagnosed_site(tmp_path_factory, "identity") as made:
        yield made


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named_and_gone_when_it_is_taken_back(site: DiagnosedSite, name: str) -> None:
    """Exactly what was provoked is found, and nothing once it is mended."""
    fault, expected, choices = CASES[name]
    with fault(site):
        about = site.finds(*expected, choices=choices)
        print(f"{name}: {about}", flush=True)
    site.is_healthy()


def test_two_that_look_alike_are_told_apart(site: DiagnosedSite) -> None:
    """Of two topics that the target lacks, the one is hidden by an ACL entry, the other excluded by the filter."""
    with hidden_and_excluded(site):
        about = site.finds("topic_hidden", "topic_excluded")
    assert [name.partition("-")[0] for name in (*about["topic_hidden"], *about["topic_excluded"])] == [
        "hidden",
        "excluded",
    ]
    site.is_healthy()


def test_a_busy_healthy_flow_has_no_finding(site: DiagnosedSite) -> None:
    """While records are written and a group follows, nothing is found and every tree is asked."""
    with site.site.under_load():
        for _ in range(3):
            evidence = site.diagnose()
            assert found(evidence) == found(evidence, "choices") == set()
            assert figures_of(evidence)["not_asked"] == {}
            assert evidence["reason_for_outcome"] == "no fault was found"
