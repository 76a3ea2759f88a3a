"""Clients' SCRAM users on the target: refused is only who certainly cannot log in there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.domain.logins.login_view import LoginView
from kafka_dr.domain.readiness.client_rights import users_exist_on_target
from kafka_dr.domain.readiness.notes import list_notes

from tests.plugins.kafka_dr.domain.readiness.test_readiness import RIGHTS, acl, cluster, gates, seen, target

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


def test_users_of_a_target_with_other_logins_are_noted_and_no_blocker() -> None:
    """A target by tokens has no user with a password; one that has some, or is by password, must have all."""
    by_token = {"primary": LoginView("p", True, "SCRAM-SHA-512"), "standby": LoginView("s", True, "OAUTHBEARER")}
    mixed = replace(target(users=frozenset({"admin"})), cluster_logins=by_token)
    assert gates(mixed) == set()
    assert any("in different ways" in note and "no SCRAM user of app" in note for note in list_notes(mixed))
    by_certificate = {**by_token, "standby": LoginView("s", True)}
    assert gates(replace(mixed, cluster_logins=by_certificate)) == set()
    without_login = {**by_token, "standby": LoginView("s", False)}
    assert gates(replace(mixed, cluster_logins=without_login)) == {"users_exist_on_target"}
    by_password = {**by_token, "standby": LoginView("s", True, "SCRAM-SHA-256")}
    assert gates(replace(mixed, cluster_logins=by_password)) == {"users_exist_on_target"}
    both = AclRules(
        frozenset(RIGHTS | {acl("User:reader", "read", "orders"), acl("User:reader", "read", "billing", "group")})
    )
    some = seen(
        source=cluster("primary", rules=both, users=frozenset({"app", "reader"})),
        target=cluster("standby", rules=both, users=frozenset({"app"})),
        cluster_logins=by_token,
    )
    assert gates(some) == {"users_exist_on_target"}
