"""Makes environment variables by which a command reads Airflow's users and connections from files in a folder.

With the option --own-database the variables also name a new database, as the database of the site's Airflow is lost.
Imports nothing of Airflow, which reads the environment when it is first imported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka_dr.domain.canonical_json import read_json
from kafka_dr.errors import BadInput
from kafka_dr.hooks.private_files import private_folder, refuse_open

USERS = "users.json"
CONNECTIONS = "connections"
SIMPLE = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"


def own_database_environment(folder: Path) -> dict[str, str]:
    """Return environment variables, name -> value, for a new database, users and connections, all from one folder.

    Raises:
        BadInput: a file cannot be read as a JSON object, or users other than the file's owner may read the file.
        NotReady: users other than the folder's owner may read, write or search the folder.
    """
    folder = folder.absolute()
    database = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db"}
    return database | folder_environment(folder)


def folder_environment(folder: Path) -> dict[str, str]:
    """Return environment variables, name -> value, with the users and connections that files in a folder state.

    Args:
        folder: created if missing; may hold `users.json` (user name to password) and `connections/*.json` (as `airflow
            connections export` and make_topology write these files). All users get the same role, because the simple
            auth manager cannot separate operators from approvers.

    Raises:
        BadInput: a file cannot be read as a JSON object, or users other than the file's owner may read the file.
        NotReady: users other than the folder's owner may read, write or search the folder.
    """
    refuse_open([private_folder(folder)])
    environment: dict[str, str] = {}
    for file in sorted((folder / CONNECTIONS).glob("*.json")):
        environment |= {f"AIRFLOW_CONN_{name.upper()}": json.dumps(stored) for name, stored in _private(file).items()}
    users = folder / USERS
    if users.exists():
        environment |= {
            "AIRFLOW__CORE__AUTH_MANAGER": SIMPLE,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:op" for name in _private(users)),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(users),
        }
    return environment


def _private(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; BadInput without one, or if users other than the file's owner may read it."""
    if file.stat().st_mode & 0o077:
        raise BadInput(
            f"{file} holds secrets, and other users may read the file",
            f"mode {file.stat().st_mode & 0o777:o}",
            f"Run chmod 600 {file}, then run the command again.",
        )
    try:
        document = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        document = None
    if not isinstance(document, dict) or not document:
        raise BadInput(
            f"{file} cannot be read",
            "this user may not read the file, or the file is no JSON object, or the object is empty",
            "Write one JSON object: each key is a name, such as a connection id, and holds its value.",
        )
    return document
