"""The environment of an Airflow whose database was lost: a folder with a fresh one, its users, and connections.

Standard library only: Airflow reads its environment when it is first imported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.errors import BadInput

USERS = "users.json"
CONNECTIONS = "connections"
SIMPLE = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"


def own_database_environment(folder: Path) -> dict[str, str]:
    """Settings that make a folder Airflow's home for one command: `folder_environment`, and another database.

    Raises:
        BadInput: a file cannot be read, or others may read it.
    """
    folder = folder.absolute()
    database = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db"}
    return database | folder_environment(folder)


def folder_environment(folder: Path) -> dict[str, str]:
    """Users and connections of a folder.

    Args:
        folder: may hold `users.json` (user name to password) and `connections/*.json` (as `airflow connections export`
            and make_topology write them); all users get the same role, for the simple auth manager parts them no
            further.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found: dict[str, str] = {}
    for file in sorted((folder / CONNECTIONS).glob("*.json")):
        found |= {f"AIRFLOW_CONN_{name.upper()}": json.dumps(told) for name, told in _private(file).items()}
    users = folder / USERS
    if users.exists():
        found |= {
            "AIRFLOW__CORE__AUTH_MANAGER": SIMPLE,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:op" for name in _private(users)),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(users),
        }
    return found


def _private(file: Path) -> dict[str, Any]:
    """A JSON object out of a file that only its owner may read."""
    if file.stat().st_mode & 0o077:
        raise BadInput(
            f"{file} holds secrets and others may read it", f"mode {file.stat().st_mode & 0o777:o}", f"chmod 600 {file}"
        )
    try:
        found = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not found:
        raise BadInput(f"{file} cannot be read", "it is no JSON object", 'Write it as {"name": ...}.')
    return found
