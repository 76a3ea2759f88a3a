"""Where and in which form records are exported, and which runs need whole exports."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

from kafka_dr.domain.failback.stranded import Decision, Mode
from kafka_dr.domain.plain_text import count_of
from kafka_dr.errors import NotReady
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.procedure.run import Run

#: Spark jobs whose executors export records.
EXPORTING_JOBS = ("assess_data_loss", "find_stranded_records")


def export_fields(procedure: Run, output_folder: Path) -> dict[str, Any]:
    """Return the fields of job.json that state where and in which form records are exported.

    In the store the files have the names that they would have in the evidence folder, so that any machine fetches them.
    """
    stored_at, exports = procedure.artifacts.stored_at, procedure.topology.exports
    return {
        "export_to": f"{stored_at}{output_folder.name}" if stored_at else None,
        "export_values": exports.values,
        "export_keys": exports.keys,
    }


def export_logins(procedure: Run) -> dict[str, Any]:
    """Return what a job that exports gets among its logins: the store's options, and the secret that hashes keys."""
    logins: dict[str, Any] = {}
    topology, connections = procedure.topology, procedure.systems.connections
    if topology.store is not None and topology.store.connection is not None:
        logins["store"] = connections.archive_options(topology.store.connection)
    if topology.exports.connection is not None:
        logins["export_secret"] = connections.export_secret(topology.exports.connection)
    return logins


def store_listing(procedure: Run, output_folder: Path) -> None:
    """Put the listing and the figures of an export into the store, beside the files that executors wrote there."""
    if procedure.topology.store is not None:
        for path in sorted(path for path in output_folder.iterdir() if path.is_file()):
            procedure.artifacts.store_if_possible(path)


def refuse_partial_exports(procedure: Run) -> None:
    """Refuse a run that deletes records, or writes some again, which its exports would not hold whole.

    Raises:
        NotReady: the run's params demand it, and the topology's `exports` leave values or keys out.
    """
    if procedure.topology.exports.whole:
        return
    choices = procedure.request.choices
    decisions = sorted({*map(str, choices.get("stranded", {}).values())} & {Decision.REPLAY, Decision.QUARANTINE})
    wanted = [f"stranded records are to be treated with {decision}" for decision in decisions]
    if choices.get("mode") == Mode.RECREATE:
        wanted.append("mode recreate deletes logs, and only the export then holds what is stranded in them")
    if wanted:
        raise NotReady(
            "This run needs exports that hold records whole",
            f"{'; '.join(wanted)}; {_left_out(procedure)}",
            "Nothing was changed. Start a new run in mode append with the decision keep, for which records stay where"
            " they are. Or have `exports` in the topology keep values and keys, and start a new run.",
        )


def refuse_deleting_unexported(procedure: Run, target_only: int) -> None:
    """Refuse to delete topics with records that only the target holds, if exports do not hold records whole.

    Raises:
        NotReady: the topology's `exports` leave values or keys out.
    """
    if target_only and procedure.request.choices.get("delete_target_topics") and not procedure.topology.exports.whole:
        raise NotReady(
            "Topics to delete hold records that no export would hold whole",
            f"{count_of(target_only, 'record')} only on {procedure.request.target}; {_left_out(procedure)}",
            "Nothing was changed. Start a new run without `delete_target_topics`. Or have `exports` in the topology"
            " keep values and keys, and start a new run.",
        )


def _left_out(procedure: Run) -> str:
    exports = procedure.topology.exports
    return f"by the topology, exports have values: {exports.values}, keys: {exports.keys}"


def record_parts(
    procedure: Run, record: Record, secret: str | None
) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    """Return key, value and headers of a record as the topology's `exports` state.

    Args:
        secret: the secret of the hash; None without one.
    """
    key, value, headers = record.key, record.value, record.headers
    if secret is not None and key is not None:
        key = hmac.new(secret.encode(), key, "sha256").hexdigest().encode()
    if procedure.topology.exports.values == "omit":
        value, headers = None, tuple((name, None) for name, _ in headers)
    return key, value, headers
