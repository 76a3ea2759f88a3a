"""What diagnose_replication finds under default naming, where a topic has another name on the target."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.diagnosis.diagnosed_site import DiagnosedSite, diagnosed_site, figures_of, found
from tests.faults.diagnosis.flow_faults import COMMON
from tests.faults.diagnosis.stalled_flows import STALLED
from tests.faults.readiness.checked_site import BUSY

CASES = COMMON | STALLED
#: The cases in which topics are looked for by their names on the target.
BY_NAME = (
    "the producer may not write",
    "the filter leaves a topic out that was copied",
    "names collide",
    "MirrorMaker 2 may not create topics",
    "partitions differ",
    "another client writes to the copy",
    "the copies were deleted",
    "topics multiply",
    "heartbeats are not mirrored",
    "the group works on the target",
    "one connector names topics otherwise",
    "MirrorMaker 2 may not read the topic on the target",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiagnosedSite]:
    """A flow without a finding under default naming."""
    with diagnosed_site(tmp_path_factory, "default") as made:
        yield made


@pytest.mark.parametrize("name", BY_NAME)
def test_a_fault_is_named_by_the_sources_names(site: DiagnosedSite, name: str) -> None:
    """Exactly what was provoked is found, and nothing once it is mended."""
    fault, expected, choices = CASES[name]
    with fault(site):
        print(f"{name}: {site.finds(*expected, choices=choices)}", flush=True)
    site.is_healthy()


def test_both_directions_may_run(site: DiagnosedSite) -> None:
    """No record goes in a circle where names differ: all is in order while the opposite flow copies the same topic."""
    with site.reverse_running(BUSY), site.site.under_load():
        evidence = site.diagnose()
        assert found(evidence) == found(evidence, "choices") == set()
        assert figures_of(evidence)["not_asked"] == {}
