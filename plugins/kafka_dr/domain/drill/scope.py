"""What a drill may change on the clusters: literal names, each of which shows that it is this drill's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from kafka_dr.domain.drill.names import DRILL, DrillNames, internal_topics, mirrored_topics, short_id
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.mirror_maker.naming import LONGEST_TOPIC, Naming
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, OutsideDrill

_LEGAL = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_TOPIC}}}")
_INTERNAL = re.compile(rf"mm2-offset-syncs\.{DRILL}\..+\.{DRILL}\.internal|.+\.{DRILL}\.checkpoints\.{DRILL}\.internal")


@dataclass(frozen=True)
class DrillScope:
    """The literal names that one drill may change; every client that a run uses refuses any other name.

    Attributes:
        drill_id: the id of the drill's procedure.
        own: names of Switchback's own topics, connector and transactional ids in this drill; they belong to the scope.
        topics, groups, connectors, transactional_ids: further names.
        principals: whose ACL entries the drill sees besides those on its own names: its clients, and those that no
            fence refuses. The drill neither judges nor changes the rights of others.
        routing_folder: absolute path of the folder with the drill's routing record; "" if the drill has none.
    """

    drill_id: str
    own: OwnNames
    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    connectors: frozenset[str] = frozenset()
    transactional_ids: frozenset[str] = frozenset()
    principals: frozenset[str] = frozenset()
    routing_folder: str = ""

    def __post_init__(self) -> None:
        """Add the own names; refuse a name that could belong to production.

        Raises:
            BadInput: a name does not have the shape of this drill's names.
        """
        own = self.own
        for field, names in {
            "topics": (own.probe, own.canary, own.progress, own.exempt_topic),
            "connectors": (own.exempt_connector,),
            "transactional_ids": (own.check, own.replay or ""),
        }.items():
            object.__setattr__(self, field, frozenset({*getattr(self, field), *names}))
        if problems := self._problems():
            raise BadInput(
                "the scope of a drill names what may belong to production",
                first_few(problems, 10),
                "nothing was changed; report this message as a defect of Switchback",
            )

    @property
    def short(self) -> str:
        """The id in the drill's names."""
        return short_id(self.drill_id)

    def require_topic(self, name: str, call: str) -> None:
        """Raise OutsideDrill unless the drill may change this topic; `call` says what would be done."""
        self._require(name, self.topics, "topic", call)

    def require_group(self, name: str, call: str) -> None:
        """Raise OutsideDrill unless the drill may change this group."""
        self._require(name, self.groups, "group", call)

    def require_connector(self, name: str, call: str) -> None:
        """Raise OutsideDrill unless the drill may change this connector."""
        self._require(name, self.connectors, "connector", call)

    def require_transactional_id(self, name: str, call: str) -> None:
        """Raise OutsideDrill unless the drill may use this transactional id, or abort its transaction."""
        self._require(name, self.transactional_ids, "transactional id", call)

    def require_resource(self, kind: str, name: str | None, pattern: str, call: str) -> None:
        """Raise OutsideDrill unless an ACL entry is literal, on a topic, group or transactional id of the drill.

        Args:
            kind, pattern: in Kafka's words, in lower case, such as `transactional_id` and `literal`.
            name: the resource's name; None for any name.
        """
        names = {"topic": self.topics, "group": self.groups, "transactional_id": self.transactional_ids}
        if pattern != "literal" or kind not in names or name is None:
            self.refuse(f"{pattern} {kind} {name!r}", call)
        self._require(name, names[kind], kind.replace("_", " "), call)

    def shows_entry(self, entry: AclEntry) -> bool:
        """Whether an ACL entry concerns the drill: it is on one of the drill's names, or of one of its principals."""
        names = {"topic": self.topics, "group": self.groups, "transactional_id": self.transactional_ids}
        return entry.principal in self.principals or entry.name in names.get(entry.resource_type, ())

    def require_routing_file(self, path: str, folder: str) -> None:
        """Raise OutsideDrill unless a file lies in the drill's routing folder; both paths without symbolic links."""
        if not (self.routing_folder and path.startswith(f"{folder.rstrip('/')}/")):
            self.refuse(f"routing record {path!r}", "writing a routing record")

    def refuse(self, what: str, call: str) -> NoReturn:
        """Raise OutsideDrill for what no drill may change, or what is not this drill's."""
        raise OutsideDrill(
            f"{call} would change what is outside this drill: {what}",
            f"the drill {self.drill_id} may change only names with {DRILL}.{self.short}, and its own internal topics",
            "No request was sent, and production is unchanged. Report this message as a defect of Switchback. Let this"
            " run close, or abort it: what the drill has made is removed by its names and ids",
        )

    def _require(self, name: str, allowed: frozenset[str], kind: str, call: str) -> None:
        if name not in allowed:
            self.refuse(f"{kind} {name!r}", call)

    def _problems(self) -> list[str]:
        begin = re.escape(f"{DRILL}.{self.short}.")
        shapes = {
            "topics": re.compile(rf".*{begin}.*[A-Za-z0-9]|{_INTERNAL.pattern}"),
            "groups": re.compile(rf"__{begin}.*[A-Za-z0-9]"),
            "connectors": re.compile(rf"{begin}.*[A-Za-z0-9]"),
            "transactional_ids": re.compile(rf"__{begin}.*[A-Za-z0-9]"),
        }
        problems = [
            f"{field}: {name!r}"
            for field, shape in shapes.items()
            for name in sorted(getattr(self, field), key=repr)
            if not (isinstance(name, str) and _LEGAL.fullmatch(name) and shape.fullmatch(name))
        ]
        parts = self.routing_folder.split("/")
        if self.routing_folder and (parts[0] or ".." in parts or self.drill_id not in parts):
            problems.append(f"routing_folder: {self.routing_folder!r}")
        return problems


def scope_of(
    names: DrillNames,
    naming: Naming,
    pair: Sequence[str],
    topics: Iterable[str],
    groups: Iterable[str],
    routing_folder: str = "",
    principals: Iterable[str] = (),
) -> DrillScope:
    """Return the scope of a drill between two clusters, in both directions.

    Args:
        naming: the drill's, by `drill_naming`.
        pair: the aliases of both clusters.
        topics, groups: short names of the topics and groups of the drill's clients.
        routing_folder: absolute path of the folder with the drill's routing record.
        principals: whose ACL entries the drill sees.
    """
    literal = [names.topic(name) for name in topics]
    first, second = pair
    flows = ((first, second), (second, first))
    return DrillScope(
        names.drill_id,
        names.own,
        topics=frozenset(literal) | mirrored_topics(naming, pair, literal) | internal_topics(naming, pair),
        groups=frozenset(map(names.group, groups)),
        connectors=frozenset(
            make(*flow) for flow in flows for make in (names.source_connector, names.checkpoint_connector)
        ),
        principals=frozenset(principals),
        routing_folder=routing_folder,
    )
