"""Program: makes FAB's own roles, the roles of runbooks/approvals_with_fab.md, and one person for each role.

The password of everybody is the program's first argument; the names of people are those of their roles.
"""

from __future__ import annotations

import sys

from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

READ = ("DAGs", "DAG Runs", "Task Instances", "DAG Code", "DAG Versions", "HITL Detail")
WORK = {
    "can_read": ("Task Logs", "XComs", "ImportError", "DAG Warnings"),
    "menu_access": ("DAGs", "HITL Detail", "Browse"),
}
#: Role -> action -> resources, as the page's commands give them.
RIGHTS = {
    "switchback-reader": {"can_read": (*READ, "ImportError", "Pools")},
    "switchback-operator": {
        **WORK,
        "can_read": (*READ, *WORK["can_read"]),
        "can_edit": ("DAGs", "DAG Runs", "Task Instances"),
        "can_create": ("DAG Runs",),
    },
    "switchback-approver": {
        **WORK,
        "can_read": (*READ, *WORK["can_read"]),
        "can_edit": ("DAGs", "HITL Detail"),
    },
}
OWN_ROLES = ("Viewer", "User", "Op", "Admin")


def main(password: str) -> None:
    """Make roles and people."""
    with get_application_builder() as builder:
        security = builder.sm
        builder.add_permissions(update_perms=True)
        security.sync_roles()
        for name, rights in RIGHTS.items():
            role = security.add_role(name)
            for action, resources in rights.items():
                for resource in resources:
                    security.add_permission_to_role(role, security.create_permission(action, resource))
        for name in (*OWN_ROLES, *RIGHTS, "Public"):
            made = security.add_user(name, name, name, f"{name}@example.org", security.find_role(name), password)
            assert made, name


if __name__ == "__main__":
    main(sys.argv[1])
