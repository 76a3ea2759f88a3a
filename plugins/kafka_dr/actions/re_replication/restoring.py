"""Set the settings of the target topics again that differ from the export."""

from __future__ import annotations

from kafka_dr.actions.re_replication.export import load_settings, own_settings
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import ReadBackFailed
from kafka_dr.procedure.entries import TargetTopicsExported
from kafka_dr.procedure.run import Run


def restore_settings(procedure: Run) -> dict[str, list[str]]:
    """Set what differs, and read it back; return target topic -> settings that were set.

    A setting that the topic got since then, as MirrorMaker 2 copies settings of the source, is left.

    Raises:
        ReadBackFailed: a setting was not read back as exported.
    """
    exported = load_settings(procedure, procedure.progress.require(TargetTopicsExported).settings)
    target = procedure.systems.target
    wanted = {name: dict(topic.settings) for name, topic in exported.items()}
    changed = _differences(wanted, {name: own_settings(found) for name, found in target.configs(wanted).items()})
    for name, keys in changed.items():
        for key in keys:
            procedure.authority.hold()
            target.set_config(name, key, wanted[name][key])
    left = _differences(wanted, {name: own_settings(found) for name, found in target.configs(changed).items()})
    if remaining := [f"{name}: {', '.join(keys)}" for name, keys in left.items() if name in changed]:
        raise ReadBackFailed(
            "Settings of target topics were not read back as exported",
            first_few(remaining, separator="; "),
            "Find out which tool changes these settings on the target; then clear place_target_groups.",
        )
    return changed


def _differences(wanted: dict[str, dict[str, str]], now: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    rows = {
        name: sorted(key for key, value in settings.items() if now.get(name, {}).get(key) != value)
        for name, settings in wanted.items()
    }
    return {name: keys for name, keys in rows.items() if keys}
