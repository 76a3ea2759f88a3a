"""What drills have left on a lab without Airflow, and the clean-up that schedule_drills does."""

from __future__ import annotations

import requests
from confluent_kafka.admin import AdminClient
from kafka_dr.domain.drill.names import DRILL

from lab.environment.state import ALIASES, Lab
from tests.faults.drills.drill_kills import LATER_DAYS
from tests.faults.support.stepping import Run, Stepping
from tests.support.lab_clients import acl_filter

#: A prefix of names that the lab's standing ACL entries have: no drill makes them.
_PREFIXES = (f"{DRILL}.", f"__{DRILL}.", *(f"{alias}.{DRILL}." for alias in ALIASES))
_SECONDS = 30.0


def list_leftovers(lab: Lab) -> list[str]:
    """Return all topics, groups, ACL entries and connectors that are named after a drill."""
    found: list[str] = []
    for alias in ALIASES:
        admin = AdminClient({**lab.client_properties(alias, "admin"), "log_level": 0})
        groups = admin.list_consumer_groups().result(_SECONDS).valid
        names = [*admin.list_topics(timeout=_SECONDS).topics, *(group.group_id for group in groups)]
        names += [one.name for one in admin.describe_acls(acl_filter()).result(_SECONDS) if one.name not in _PREFIXES]
        names += requests.get(f"{lab.drill_connect_url(alias)}/connectors", timeout=_SECONDS).json()
        found += [f"{alias}: {name}" for name in names if f"{DRILL}." in name]
    return found


def clean_left_drills(driver: Stepping) -> dict[str, str]:
    """Have schedule_drills clean up days later; return drill -> what became of it."""
    (found,) = driver.processes(Run({}, dag_id="schedule_drills"), "clean_left_drills", days_ahead=LATER_DAYS)
    assert found["state"] == "done", found
    answers: dict[str, str] = found["value"]
    return answers
