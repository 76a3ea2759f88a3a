"""Logins of a job: a private file that is deleted once it has been read."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_dr_spark.contract.schemas import ContractBroken

_MEND = (
    "write a JSON object that has the client settings of both clusters under `source` and `target`, each with"
    " bootstrap.servers, and may have settings of Spark under `spark`, fsspec's options of the store under `store`, and"
    " the secret that hashes keys under `export_secret`"
)


@dataclass(frozen=True)
class Logins:
    """What a job must not get on a command line, because others could read it there.

    Attributes:
        source, target: client settings of the clusters; None if the file has none for the cluster.
        spark: settings of Spark, such as the secret that all processes of a Spark cluster share.
        store: fsspec's options of the store to which records are exported.
        export_secret: the secret by which keys are hashed in exports; "" without one.
    """

    source: Mapping[str, Any] | None = field(default=None, repr=False)
    target: Mapping[str, Any] | None = field(default=None, repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    store: Mapping[str, Any] = field(default_factory=dict, repr=False)
    export_secret: str = field(default="", repr=False)


def take_logins(path: Path) -> Logins:
    """Read the logins from a file that only its owner can read, and delete the file.

    Raises:
        ContractBroken: names the file and the fault, never its content.
    """
    text = _private_text(path)
    path.unlink(missing_ok=True)
    try:
        document = json.loads(text)
    except ValueError:
        raise ContractBroken(f"{path}: not JSON; {_MEND}") from None
    if not isinstance(document, dict) or not document.keys() <= set(Logins.__dataclass_fields__):
        raise ContractBroken(f"{path}: must be an object with no other keys; {_MEND}")
    for side in ("source", "target"):
        settings = document.get(side)
        if settings is not None and (not isinstance(settings, dict) or "bootstrap.servers" not in settings):
            raise ContractBroken(f"{path}: {side} must be an object of client settings; {_MEND}")
    if not isinstance(document.get("store", {}), dict):
        raise ContractBroken(f"{path}: store must be an object of fsspec's options; {_MEND}")
    return Logins(**document)


def _private_text(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ContractBroken(
                f"{path}: other users can read the file (mode {stat.S_IMODE(mode):04o}); set the mode to 0600"
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ContractBroken(
            f"{path}: the logins cannot be read ({error.strerror}); the driver must run on the machine and as the user"
            " of the Airflow task that wrote the file: set deploy mode client in Spark's connection"
        ) from None
