"""Every end of the decision trees has a case that provokes it on a real lab."""

from __future__ import annotations

from kafka_dr.domain.diagnosis.diagnosis import list_ends

from tests.faults.deployment.test_partition_without_leader import DIAGNOSED
from tests.faults.diagnosis.flow_faults import COMMON
from tests.faults.diagnosis.stalled_flows import STALLED


def test_every_end_is_provoked_on_a_lab() -> None:
    """By its name, and no case names an end that does not exist, which would never be found."""
    cases = [*COMMON.values(), *STALLED.values()]
    provoked = {end for _, findings, choices in cases for end in (*findings, *choices)}
    assert provoked | DIAGNOSED == {end.id for end in list_ends()}


def test_every_case_has_a_name_of_its_own() -> None:
    """Else one of two cases of the same name would not run."""
    assert not COMMON.keys() & STALLED.keys()
