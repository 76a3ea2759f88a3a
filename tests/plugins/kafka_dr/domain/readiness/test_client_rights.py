"""SCRAM mechanisms of clients' users: refused is only who certainly cannot log in to the target."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kafka_dr.domain.readiness.client_rights import users_exist_on_target

from tests.plugins.kafka_dr.domain.readiness.test_readiness import cluster, seen

OLD, NEW = {"SCRAM-SHA-256": 4096}, {"SCRAM-SHA-512": 4096}


def test_a_user_without_a_mechanism_in_common_is_refused() -> None:
    """Its clients log in to the source by a mechanism for which the target has no credentials."""
    (blocker,) = users_exist_on_target(
        seen(source=cluster("primary", scram={"app": OLD}), target=cluster("standby", scram={"app": NEW}))
    )
    assert blocker.reason == "Users of clients have other SCRAM mechanisms on the target than on the source"
    assert blocker.seen == "app: SCRAM-SHA-256 on primary, SCRAM-SHA-512 on standby"


@pytest.mark.parametrize(("here", "there"), [(OLD | NEW, NEW), (OLD, OLD | NEW), (OLD, {"SCRAM-SHA-256": 1})])
def test_a_mechanism_in_common_is_enough(here: Mapping[str, int], there: Mapping[str, int]) -> None:
    """Which one clients use is unknown; the number of iterations refuses nobody."""
    pair = seen(source=cluster("primary", scram={"app": here}), target=cluster("standby", scram={"app": there}))
    assert list(users_exist_on_target(pair)) == []
