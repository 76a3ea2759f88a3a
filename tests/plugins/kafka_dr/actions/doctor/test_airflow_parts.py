"""What doctor says of an account in Airflow that may not read what doctor asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from kafka_dr.actions.doctor.airflow_parts import airflow_units
from kafka_dr.actions.doctor.site import Site
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.http_tls import HttpTls

from tests.support.json_server import JsonHandler, served


class Refusing(JsonHandler):
    """An API server that gives tokens, and refuses or fails every read."""

    status = 403

    def reply(self) -> None:
        """Give a token to who logs in, and nothing else."""
        logs_in = self.command == "POST"
        self.answer(*((201, {"access_token": "t"}) if logs_in else (type(self).status, {"detail": "Forbidden"})))

    do_GET = do_POST = reply


def site_of(url: str) -> Site:
    """A site whose account is asked at this address."""
    connections = SimpleNamespace(api_login=lambda _: (url, "switchback", "secret"), tls=lambda _: HttpTls())
    topology = SimpleNamespace(airflow_api=SimpleNamespace(connection="airflow_api"), recorder=None)
    return cast("Site", SimpleNamespace(connections=connections, topology=topology, of_kind=lambda *_: []))


def test_whatever_the_account_may_not_read_is_a_right_that_it_lacks() -> None:
    """And no API that does not answer: the remedy is a role. What needs the rights is not looked at then."""
    with served(Refusing) as url:
        units = {unit.check: unit for unit in airflow_units(site_of(url))}
        found = list(units["airflow_rights"].look())
    about = {finding.about for finding in found}
    assert about == {"DAGs", "import errors", "tasks", "pools", "DAG runs", "task instances", "HITL details"}
    for finding in found:
        assert finding.check == "airflow_rights" and "may not read" in finding.reason and "403" in finding.seen
        assert "approvals_with_fab.md" in finding.next_step and "secret" not in str(finding)
    assert units["dags"].needs == units["queues"].needs == ("airflow_rights",)


def test_another_error_is_that_error() -> None:
    """A server that fails lacks no right."""

    class Failing(Refusing):
        status = 500

    with served(Failing) as url:
        (unit,) = [unit for unit in airflow_units(site_of(url)) if unit.check == "dags"]
        with pytest.raises(HookUnavailable, match="GET /api/v2/importErrors"):
            list(unit.look())
