"""Kafka versions that a caller of `up` asks for: refused before anything starts, or kept in the record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lab.environment.state import ALIASES, Lab
from lab.environment.versions.releases import BROKERS, CONNECT, NEWEST, RELEASES, versions_of
from lab.errors import LabError

KAFKA_OPTION, CONNECT_OPTION = "--kafka", "--connect"
_PARTS = {KAFKA_OPTION: BROKERS, CONNECT_OPTION: CONNECT}
#: By option: alias -> version, of clusters that do not run the newest version.
Versions = Mapping[str, Mapping[str, str]]


def read_pairs(option: str, words: Iterable[str] | None) -> dict[str, str] | None:
    """Return alias -> version from words of the form ALIAS=VERSION; None if there are no words.

    Raises:
        LabError: a word has another form, or a cluster is named twice.
    """
    if words is None:
        return None
    pairs: dict[str, str] = {}
    for word in words:
        alias, equals, version = word.partition("=")
        if not equals or alias in pairs:
            raise LabError(f"{option} {word}: give each cluster once, in the form ALIAS=VERSION")
        pairs[alias] = version
    return pairs


def choose_versions(
    lab: Lab,
    kafka: Mapping[str, str] | None,
    connect: Mapping[str, str] | None,
    policy: str,
    dedicated: bool,
) -> Versions:
    """Return the versions of a lab: those asked for, or those of an existing lab if none are asked for.

    Args:
        lab: the lab, which may not exist yet.
        kafka: version of brokers by cluster; None: not asked for.
        connect: version of Connect workers and MirrorMaker 2 by cluster; None: not asked for.
        policy: naming of mirrored topics in a new lab, `identity` or `default`.
        dedicated: in a new lab MirrorMaker 2 runs in dedicated mode for primary->standby.

    Raises:
        LabError: a cluster or version does not exist, versions do not exist together with the naming or mode, or the
            existing lab has other versions.
    """
    asked = {KAFKA_OPTION: kafka, CONNECT_OPTION: connect}
    for option, choices in asked.items():
        for alias, version in (choices or {}).items():
            _refuse_unknown(option, alias, version)
    if lab.exists():
        return _of_existing(lab, asked)
    for alias, version in (connect or {}).items():
        _refuse_impossible(alias, version, policy, dedicated)
    return {option: _other_than_newest(choices or {}) for option, choices in asked.items()}


def keep_versions(lab: Lab, versions: Versions) -> None:
    """Store the versions in the record of a new lab."""
    record = lab.load()
    kafka, connect = (dict(versions[option]) for option in (KAFKA_OPTION, CONNECT_OPTION))
    if (record.kafka, record.connect) != (kafka, connect):
        record.kafka, record.connect = kafka, connect
        lab.save(record)


def _of_existing(lab: Lab, asked: Mapping[str, Mapping[str, str] | None]) -> Versions:
    record = lab.load()
    present = {KAFKA_OPTION: record.kafka, CONNECT_OPTION: record.connect}
    for option, choices in asked.items():
        if choices is not None and _other_than_newest(choices) != present[option]:
            raise LabError(
                f"the lab under {lab.root} was created with {option} {_text(present[option])}, not {_text(choices)}; to"
                f" change this, first stop and remove the lab with: python -m lab down --state {lab.root}"
            )
    return present


def _refuse_unknown(option: str, alias: str, version: str) -> None:
    part = _PARTS[option]
    if alias not in ALIASES:
        raise LabError(
            f"{option} {alias}={version}: the lab has no cluster {alias!r}; choose one of {', '.join(ALIASES)}"
        )
    if version not in versions_of(part):
        raise LabError(
            f"{option} {alias}={version}: the lab does not run {part} of version {version!r}; choose one of"
            f" {', '.join(versions_of(part))}"
        )


def _refuse_impossible(alias: str, version: str, policy: str, dedicated: bool) -> None:
    release = RELEASES[version]
    if policy not in release.namings:
        raise LabError(
            f"{CONNECT_OPTION} {alias}={version}: MirrorMaker 2 {version} has no {policy} naming; add --policy"
            f" {' or '.join(release.namings)}"
        )
    if dedicated and version != NEWEST:
        raise LabError(
            f"{CONNECT_OPTION} {alias}={version}: in dedicated mode the lab runs MirrorMaker 2 {NEWEST} only; leave one"
            " of both out"
        )


def _other_than_newest(choices: Mapping[str, str]) -> dict[str, str]:
    return {alias: version for alias, version in choices.items() if version != NEWEST}


def _text(choices: Mapping[str, str]) -> str:
    return ", ".join(f"{alias}={choices.get(alias, NEWEST)}" for alias in ALIASES)
