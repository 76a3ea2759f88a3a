"""Hook classes of the connection types in `provider_info`: Airflow asks them for the fields of the forms.

Airflow 3.3 reads the fields from `provider_info` itself; 3.1 and 3.2 import these classes and call them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from airflow.sdk import BaseHook

from kafka_dr.provider_info import DNS, HTTP, KAFKA, ConnectionField, ConnectionType

_Hook = TypeVar("_Hook", bound=type[BaseHook])


def _showing(form: ConnectionType) -> Callable[[_Hook], _Hook]:
    """Give a hook class what Airflow reads of it; Airflow 3.1 and 3.2 look in the class itself, not in its bases."""
    read_by_airflow = {
        "conn_name_attr": "connection_id",
        "conn_type": form.name,
        "hook_name": form.title,
        "default_conn_name": f"{form.name}_default",
        "get_connection_form_widgets": staticmethod(partial(_widgets, form)),
        "get_ui_field_behaviour": staticmethod(partial(_field_behaviour, form)),
    }

    def add(hook: _Hook) -> _Hook:
        for name, value in read_by_airflow.items():
            setattr(hook, name, value)
        return hook

    return add


def _widgets(form: ConnectionType) -> dict[str, Any]:
    # Airflow puts stand-ins for these modules in place before it imports a hook: neither need be installed.
    fields, validators = importlib.import_module("wtforms"), importlib.import_module("wtforms.validators")

    def widget(field: ConnectionField) -> Any:
        kind = fields.PasswordField if field.secret else fields.StringField
        checks = [validators.Optional(), *([validators.any_of(list(field.choices))] if field.choices else [])]
        return kind(field.label, description=field.description, validators=checks)

    return {field.name: widget(field) for field in form.fields}


def _field_behaviour(form: ConnectionType) -> dict[str, Any]:
    return {
        "hidden_fields": list(form.hidden),
        "relabeling": dict(form.labels),
        "placeholders": dict(form.placeholders),
    }


@_showing(KAFKA)
class KafkaClusterForm(BaseHook):
    """The form of a Kafka cluster."""


@_showing(HTTP)
class HttpServiceForm(BaseHook):
    """The form of a Connect worker or an HTTP hook."""


@_showing(DNS)
class DnsServerForm(BaseHook):
    """The form of a zone's primary DNS server."""
