"""Remove what a drill has made, by names and ids, whatever state the drill was left in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafka_dr.actions.drill.ledger import DrillLedger
from kafka_dr.config.drill import DrillSettings
from kafka_dr.domain.kafka_model.acl import AclEntry, Authorizer
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.procedure.drill_run import PrivateInstallation
from kafka_dr.procedure.entries import DrillToClean
from kafka_dr.procedure.systems import Systems

_CLIENT_SECONDS, _POLL_SECONDS = 30.0, 0.5
NOTHING = DrillToClean(topic_ids_to_delete={}, groups_to_delete={}, entries_to_remove={}, connectors_to_delete={})


class DrillCleaner:
    """Removes one drill's topics, groups, ACL entries and connectors.

    Args:
        systems: of the drill's private installation, so that nothing else can be removed.
        private: the private installation.
        settings: of drills.
    """

    def __init__(self, systems: Systems, private: PrivateInstallation, settings: DrillSettings) -> None:
        self._systems, self._private, self._settings = systems, private, settings
        self._aliases = (private.source, private.target)
        self._entries: dict[str, list[AclEntry]] = {}
        self.left: list[str] = []

    def end_clients(self) -> None:
        """Ask the drill's clients to end, and wait a moment for them; a client that was killed never answers."""
        ledger, ends_at = DrillLedger(self._private.folder), time.monotonic() + _CLIENT_SECONDS
        ledger.ask_to_stop()
        while ledger.has_begun and ledger.figures() is None and time.monotonic() < ends_at:
            time.sleep(_POLL_SECONDS)

    def stop_connectors(self) -> None:
        """Delete the drill's connectors: until then MirrorMaker 2 may make topics again."""
        for worker, names in self._connectors().items():
            for name in names:
                with self._noting(f"connector {name} in {worker}"):
                    self._systems.drill_connectors(worker).delete(name)

    def list_what_is_there(self) -> DrillToClean:
        """Return everything that the drill has on both clusters and in its workers, for the journal."""
        scope = self._private.scope
        topics, groups, entries = dict[str, dict[str, str]](), dict[str, list[str]](), dict[str, list[str]]()
        for alias in self._aliases:
            cluster = self._systems.cluster(alias)
            topics[alias] = {name: info.topic_id for name, info in cluster.topics(scope.topics).items()}
            groups[alias] = sorted(scope.groups & cluster.groups().keys())
            acls = self._systems.acls(cluster)
            known = acls.entries() if acls.authorizer() is Authorizer.BY_ACL else frozenset()
            self._entries[alias] = sorted(entry for entry in known if self._is_own(entry))
            entries[alias] = list(map(str, self._entries[alias]))
        return DrillToClean(
            topic_ids_to_delete=topics,
            groups_to_delete=groups,
            entries_to_remove=entries,
            connectors_to_delete=self._connectors(),
        )

    def remove(self, found: DrillToClean) -> list[str]:
        """Remove what was listed; return what is left, each with the reason."""
        for alias in self._aliases:
            cluster = self._systems.cluster(alias)
            with self._noting(f"ACL entries of {alias}"):
                if self._entries[alias]:
                    self._systems.acls(cluster).remove(self._entries[alias])
            topics = found.topic_ids_to_delete[alias]
            with self._noting(f"topics of {alias}"):
                cluster.delete_topics(topics, ids=topics)
            with self._noting(f"groups of {alias}"):
                answers = cluster.delete_groups(found.groups_to_delete[alias])
                self.left += [f"group {group} of {alias}: {text}" for group, text in answers.items() if text != OK]
        return self.left

    def _is_own(self, entry: AclEntry) -> bool:
        scope = self._private.scope
        names: dict[str, frozenset[str]] = {"topic": scope.topics, "group": scope.groups}
        return entry.pattern == "literal" and entry.name in names.get(entry.resource_type, ())

    def _connectors(self) -> dict[str, list[str]]:
        """Return per worker the names of the drill's connectors that are there."""
        found = {}
        for alias in self._aliases:
            worker = self._settings.connect[alias]
            with self._noting(f"connectors in {worker}"):
                own = sorted(self._private.scope.connectors)
                found[worker] = self._systems.connect_worker(worker).existing(own)
        return found

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """Note an error of the block as something that is left, so that everything else is still removed."""
        try:
            yield
        except SwitchbackError as error:
            self.left.append(f"{what}: {error}")


def clean_up(cleaner: DrillCleaner, note: Callable[[DrillToClean], None]) -> list[str]:
    """Remove everything that a drill has made; return what is left, each with the reason.

    Args:
        note: writes what is about to be removed to the journal, before it is removed.
    """
    # From this entry on no step of a pass begins.
    note(NOTHING)
    cleaner.end_clients()
    cleaner.stop_connectors()
    found = cleaner.list_what_is_there()
    note(found)
    left = cleaner.remove(found)
    again = cleaner.list_what_is_there()
    return [*left, *(f"{name} was still there, or was made again" for name in again.names)]
