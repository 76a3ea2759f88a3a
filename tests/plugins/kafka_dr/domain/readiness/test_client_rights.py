"""Users of a target where clients log in otherwise than on the source."""

from __future__ import annotations

from dataclasses import replace

from kafka_dr.domain.kafka_model.acl import AclRules
from kafka_dr.domain.logins.login_view import LoginView
from kafka_dr.domain.readiness.notes import list_notes

from tests.plugins.kafka_dr.domain.readiness.test_readiness import RIGHTS, acl, cluster, gates, seen, target


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
