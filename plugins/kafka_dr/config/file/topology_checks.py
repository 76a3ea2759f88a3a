"""Checks of a topology file that no model of `topology` makes: across several fields, and a search for secrets.

Each check yields a problem, (place in the file, text), for every fault. The checks work on the file's data as read,
even if the data does not fit the models, so that one run reports all problems. No text contains a secret's value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

from kafka_dr.config.file.flow_graph_checks import no_circles, no_merged_topics, opposite_flows_agree
from kafka_dr.config.file.strict_yaml import Place, place_text
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_problems
from kafka_dr.domain.mirror_maker.offset_option import FlowSetUp, OffsetOption, option_problems
from kafka_dr.domain.mirror_maker.patterns import PATTERN_KEYS, pattern_problem

Problem = tuple[Place, str]
Check = Callable[[Mapping[str, Any]], Iterator[Problem]]

# Too wide on purpose: a harmless key that is refused costs a rename; a secret that is accepted stays in a repository.
SECRET_KEY = re.compile(
    r"pass(word|wd|phrase)?$|password|secret|credential|token|jaas|api[._-]?key|private[._-]?key|"
    r"access[._-]?key|keystore[._-]key|"
    r"certificate[._-]chain|user[._-]?info|oauthbearer|^sasl[._-]|^ssl[._-]|[._-](sasl|ssl)[._-]",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(r"pass(word|wd)|secret|token|jaas|LoginModule|BEGIN [A-Z ]*KEY|://[^/\s]*@", re.IGNORECASE)
ADDRESS_KEY = re.compile(r"bootstrap[._-]?servers|(^|[._-])(url|uri|host|hosts|address|endpoint)$", re.IGNORECASE)
_SETTING = re.compile(r"[a-z][a-z0-9._-]{0,199}\Z")


def problems_in(data: Mapping[str, Any]) -> list[Problem]:
    """Return all problems that the checks find in a topology file's data, each as (place in the file, text)."""
    return [problem for check in CHECKS for problem in check(data)]


def without_secrets(data: Any, place: Place = ()) -> Any:
    """Return the data without keys that look like secrets or addresses, which `find_secrets` reports.

    Args:
        place: path of `data` in the file; empty for the whole file.
    """
    if isinstance(data, Mapping):
        return {
            key: without_secrets(value, (*place, str(key))) for key, value in data.items() if not _forbidden(place, key)
        }
    return (
        [without_secrets(item, (*place, index)) for index, item in enumerate(data)] if isinstance(data, list) else data
    )


def find_secrets(data: Any, place: Place = ()) -> Iterator[Problem]:
    """Yield a problem for each key that looks like a secret or an address, and each value that holds a secret.

    Args:
        place: path of `data` in the file; empty for the whole file.
    """
    children = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    for key, value in children:
        here = (*place, key if isinstance(key, int) else str(key))
        if forbidden := _forbidden(place, key):
            yield (
                here,
                (
                    f"looks like {forbidden} (the value is not shown); move the value to the Airflow connection that"
                    " `connection` names"
                ),
            )
        elif isinstance(value, str) and re.search(r"://[^/\s]*@|LoginModule|BEGIN [A-Z ]*KEY", value):
            yield (
                here,
                "the value contains a secret (not shown); move it to the Airflow connection that `connection` names",
            )
        else:
            yield from find_secrets(value, here)


def flows_join_known_clusters(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each flow whose source and target are not two different clusters of the file."""
    aliases = _mapping(data.get("clusters"))
    for index, flow in _flows(data):
        for end in ("source", "target"):
            if isinstance(alias := flow.get(end), str) and aliases and alias not in aliases:
                yield (
                    (
                        "flows",
                        index,
                        end,
                    ),
                    f"{alias!a} is not a cluster of this file; clusters: {', '.join(map(ascii, aliases))}",
                )
        if isinstance(flow.get("source"), str) and flow.get("source") == flow.get("target"):
            yield ("flows", index, "target"), "source and target are the same cluster; a flow needs two clusters"


def one_flow_per_direction(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each flow whose direction an earlier flow of the file already has."""
    first_index: dict[Any, int] = {}
    for index, flow in _flows(data):
        direction = (flow.get("source"), flow.get("target"))
        if (
            all(isinstance(end, str) for end in direction)
            and (first := first_index.setdefault(direction, index)) != index
        ):
            yield (
                (
                    "flows",
                    index,
                ),
                f"flows[{first}] already replicates {direction[0]}->{direction[1]}; at most one flow per direction",
            )


def connector_names_are_unique(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each connector name that occurs again in the same Connect worker, or in the same flow."""
    first_place: dict[tuple[Any, str], str] = {}
    for index, flow in _flows(data):
        # In dedicated mode each flow has its own connectors, with the same names in every flow.
        worker = str(flow.get("connect") or index)
        for place, name, own_worker in _connectors(_mapping(flow.get("connectors"))):
            here = place_text(("flows", index, "connectors", *place))
            taken = {first_place.setdefault((one, name), here) for one in (own_worker or worker, worker)} - {here}
            for first in taken:
                yield (
                    ("flows", index, "connectors", *place),
                    f"{name!a} is already {first} of the same Connect worker; connector names are unique",
                )


def _connectors(connectors: Mapping[Any, Any]) -> Iterator[tuple[Place, str, str | None]]:
    """Yield place, name and Connect worker (None: the flow's) of each connector, in whichever form the file has it."""
    for kind, stated in connectors.items():
        if isinstance(stated, str):
            yield (kind,), stated, None
        elif isinstance(stated, list):
            yield from (((kind, n), name, None) for n, name in enumerate(stated) if isinstance(name, str))
        elif isinstance(name := _mapping(stated).get("name"), str):
            yield (kind, "name"), name, _mapping(stated).get("connect")


def aliases_are_apart(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for two aliases that collide in names of topics or metrics, or that have the same connection."""
    clusters = {
        alias: _mapping(cluster) for alias, cluster in _mapping(data.get("clusters")).items() if isinstance(alias, str)
    }
    for one, other in combinations(clusters, 2):
        if _alike(one) == _alike(other):
            yield (
                (
                    "clusters",
                    other,
                ),
                f"too much like {one!a}: names that differ in case, or in `.` and `_`, collide as topics or metrics",
            )
        if isinstance(name := clusters[one].get("connection"), str) and name == clusters[other].get("connection"):
            yield (
                (
                    "clusters",
                    other,
                    "connection",
                ),
                f"{name!a} is already the connection of {one!a}; two aliases cannot mean the same cluster",
            )


def naming_can_be_read_back(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each reason why `naming` cannot be used with the aliases of the file."""
    naming, aliases = _mapping(data.get("naming")), [a for a in _mapping(data.get("clusters")) if isinstance(a, str)]
    policy: Any = naming.get("policy")
    spec = NamingSpec(
        policy,
        naming.get("separator", "."),
        naming.get("internal_topic_separator", True),
        naming.get("template"),
        naming.get("policy_class"),
    )
    texts = (spec.template, spec.policy_class)
    if not isinstance(spec.separator, str) or not all(isinstance(text, str | None) for text in texts):
        return
    for problem in naming_problems(spec, aliases) if spec.policy in ("identity", "default", "template") else ():
        yield ("naming",), problem
    if spec.policy == "default" and spec.separator:
        for alias in (alias for alias in aliases if spec.separator in alias):
            yield (
                ("clusters", alias),
                (
                    f"the alias contains the separator {spec.separator!a}: MirrorMaker 2 takes the text before the"
                    " first separator for the source's alias, so that it neither recognizes its own topics nor stops a"
                    " loop; use another alias or separator"
                ),
            )


def mirror_maker_settings(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each unusable key, pattern, alias or location under a flow's `mirror_maker`."""
    for index, flow in _flows(data):
        for key, value in _mapping(flow.get("mirror_maker")).items():
            here = ("flows", index, "mirror_maker", str(key))
            if not _SETTING.match(str(key)):
                yield (
                    here,
                    "not the name of a MirrorMaker 2 setting: expected lower-case letters, digits, dots and hyphens",
                )
            elif (
                key in PATTERN_KEYS
                and isinstance(value, str)
                and (problem := pattern_problem(value, PATTERN_KEYS[key]))
            ):
                yield here, problem
            elif key in ("source.cluster.alias", "target.cluster.alias") and value != flow.get(key.split(".")[0]):
                yield here, f"contradicts the flow's own {key.split('.')[0]} {flow.get(key.split('.')[0])!a}"
            elif key == "offset-syncs.topic.location" and value not in ("source", "target"):
                yield here, f"{value!a} is not a location; allowed: source, target"


def offset_options_fit(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each reason why a flow cannot have the offset option that is recorded for it."""
    naming = _mapping(data.get("naming"))
    for index, flow in _flows(data):
        option = _mapping(flow.get("offset_option")).get("option")
        if not isinstance(option, str) or option not in [*OffsetOption]:
            continue
        elsewhere = _mapping(_mapping(flow.get("connectors")).get("checkpoint")).get("connect")
        workers = tuple(dict.fromkeys(str(name) for name in (flow.get("connect"), elsewhere) if name))
        set_up = FlowSetUp("", "", str(naming.get("policy")), naming.get("policy_class"), workers=workers)
        for problem in option_problems(OffsetOption(option), set_up):
            yield ("flows", index, "offset_option", "option"), f"{option}: {problem}"


def group_patterns_are_different(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each pattern that occurs again under `groups`, because only the first policy would apply."""
    first_index: dict[str, int] = {}
    groups = data.get("groups")
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        pattern = _mapping(group).get("pattern")
        if isinstance(pattern, str) and (first := first_index.setdefault(pattern, index)) != index:
            yield ("groups", index, "pattern"), f"the same pattern as groups[{first}], whose policy always applies"


def applications_are_of_known_clusters(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each application with a cluster that the file lacks, or with another one's name or prefix."""
    aliases, first_index = _mapping(data.get("clusters")), dict[tuple[str, str], int]()
    applications = data.get("applications")
    for index, stated in enumerate(applications if isinstance(applications, list) else ()):
        application = _mapping(stated)
        for alias in _mapping(application.get("connections")):
            if aliases and alias not in aliases:
                yield (
                    ("applications", index, "connections", str(alias)),
                    f"{alias!a} is not a cluster of this file; clusters: {', '.join(map(ascii, aliases))}",
                )
        # Two applications with one prefix would have one topic, which one of them deletes while the other uses it.
        for key in ("name", "prefix"):
            if isinstance(value := application.get(key), str):
                first = first_index.setdefault((key, value), index)
                if first != index:
                    yield ("applications", index, key), f"{value!a} is already the {key} of applications[{first}]"


def notices_are_of_known_flows(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each flow under `notifications` that the file does not have."""
    known = [f"{flow.get('source')}->{flow.get('target')}" for _, flow in _flows(data)]
    routes = data.get("notifications")
    for index, route in enumerate(routes if isinstance(routes, list) else ()):
        flows = _mapping(route).get("flows")
        for number, flow in enumerate(flows if isinstance(flows, list) else ()):
            if isinstance(flow, str) and "->" in flow and flow not in known:
                yield (
                    ("notifications", index, "flows", number),
                    f"{flow!a} is not a flow of this file; flows: {', '.join(map(ascii, known))}",
                )


def dns_answers_are_of_all_clusters(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each cluster of a flow without DNS answers, and for answers of a cluster the file lacks."""
    routing, aliases = _mapping(data.get("routing")), _mapping(data.get("clusters"))
    if routing.get("kind") != "dns":
        return
    stated = _mapping(routing.get("answers"))
    for alias in [alias for alias in stated if alias not in aliases]:
        yield (
            ("routing", "answers", str(alias)),
            f"{alias!a} is not a cluster of this file; clusters: {', '.join(map(ascii, aliases))}",
        )
    ends = {flow.get(end) for _, flow in _flows(data) for end in ("source", "target")}
    for alias in sorted(alias for alias in ends if isinstance(alias, str) and alias in aliases and alias not in stated):
        yield ("routing", "answers"), f"no answers of {alias!a}, to which a flow could move clients"


CHECKS: tuple[Check, ...] = (
    find_secrets,
    flows_join_known_clusters,
    one_flow_per_direction,
    connector_names_are_unique,
    aliases_are_apart,
    naming_can_be_read_back,
    mirror_maker_settings,
    offset_options_fit,
    group_patterns_are_different,
    applications_are_of_known_clusters,
    notices_are_of_known_flows,
    dns_answers_are_of_all_clusters,
    opposite_flows_agree,
    no_circles,
    no_merged_topics,
)


def _forbidden(place: Place, key: Any) -> str | None:
    if place == ("clusters",):  # These keys are aliases, and an alias may be any word.
        return None
    if (*place, key) == ("store", "uri"):  # Its shape has no room for credentials.
        return None
    if SECRET_KEY.search(str(key)):
        return "a secret"
    return "an address" if ADDRESS_KEY.search(str(key)) else None


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _flows(data: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    flows = data.get("flows")
    return ((index, _mapping(flow)) for index, flow in enumerate(flows if isinstance(flows, list) else ()))


def _alike(alias: str) -> str:
    # Kafka refuses to create a topic whose name differs from another only in `.` and `_`: their metrics would collide.
    return alias.casefold().replace(".", "_")
