"""Applications in the topology: what is refused, and the names of their trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka_dr.config.applications import ApplicationSettings
from kafka_dr.config.settings import Topology, check_topology
from kafka_dr.errors import BadInput

from tests.support.bench import Bench

ORDERS = {"name": "orders", "connections": {"standby": "orders_standby"}, "prefix": "orders-"}


def checked(folder: Path, *applications: Any) -> Topology:
    """The topology of a bench, with these applications."""
    return check_topology(Bench(folder)._topology() | {"applications": list(applications)}, "the topology")


def test_names_begin_with_the_applications_own_prefix(tmp_path: Path) -> None:
    """MirrorMaker 2's default of topics.exclude has the topic's ending; groups may begin otherwise."""
    (orders,) = checked(tmp_path, ORDERS).applications
    assert (orders.topic, orders.group) == ("orders-switchback-access.replica", "orders-switchback-access")
    grouped = ApplicationSettings(**ORDERS, group_prefix="billing.")
    assert (grouped.topic, grouped.group) == ("orders-switchback-access.replica", "billing.switchback-access")
    login_only = ApplicationSettings(name="orders", connections={"standby": "c"})
    assert (login_only.topic, login_only.group) == (None, None)


@pytest.mark.parametrize(
    ("applications", "problem"),
    [
        ([ORDERS | {"connections": {"nowhere": "c"}}], "'nowhere' is not a cluster of this file"),
        ([ORDERS | {"connections": {}}], "applications[0].connections"),
        ([{"name": "orders"}], "applications[0].connections: missing"),
        ([ORDERS | {"connections": {"standby": "kafka://me@host"}}], "applications[0].connections.standby"),
        ([ORDERS | {"prefix": "__orders"}], "applications[0].prefix"),
        ([ORDERS | {"prefix": "orders *"}], "what names of topics and groups begin with"),
        ([ORDERS | {"password": "s3cret"}], "looks like a secret"),
        ([ORDERS, ORDERS | {"name": "billing"}], "'orders-' is already the prefix of applications[0]"),
        ([ORDERS, ORDERS | {"prefix": "billing-"}], "'orders' is already the name of applications[0]"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, applications: list[Any], problem: str) -> None:
    """With its place in the file; a secret is never shown."""
    with pytest.raises(BadInput) as refused:
        checked(tmp_path, *applications)
    assert problem in str(refused.value)
    assert "s3cret" not in str(refused.value)
