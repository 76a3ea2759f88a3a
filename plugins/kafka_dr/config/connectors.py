"""The names of a flow's connectors, `connectors` of a flow in the topology."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from kafka_dr.config.fields import Connection, ConnectorName, Model


class CheckpointConnector(Model):
    """A flow's checkpoint connector; in the file its name alone, if it runs in the flow's own Connect worker.

    Attributes:
        name: the connector's name.
        connect: Airflow connection of the connector's Connect worker; None: the worker of the source connectors.
    """

    name: ConnectorName
    connect: Connection | None = None


class Connectors(Model):
    """A flow's connectors in Connect; the heartbeat connector is optional.

    Attributes:
        source: names of the source connectors, which share the flow's topics among them; in the file one name or a
            list. All run in the flow's Connect worker.
        checkpoint: the checkpoint connector; in the file its name alone, if it runs in the flow's own Connect worker.
        heartbeat: name of the heartbeat connector.
    """

    source: Annotated[
        tuple[ConnectorName, ...],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
        Field(min_length=1),
    ]
    checkpoint: Annotated[
        CheckpointConnector, BeforeValidator(lambda value: {"name": value} if isinstance(value, str) else value)
    ]
    heartbeat: ConnectorName | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the source connectors, then that of the checkpoint connector."""
        return (*self.source, self.checkpoint.name)

    @property
    def by_kind(self) -> dict[str, str]:
        """Return the names as plans list them: kind -> name; several names are one text."""
        return {"source": ", ".join(self.source), "checkpoint": self.checkpoint.name}
