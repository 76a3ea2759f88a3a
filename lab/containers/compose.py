"""The stack of docker-compose.yaml as the machine outside handles it: through the docker command alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.containers.stack import PUBLISHED, ROOT
from lab.errors import LabError
from lab.jars import PROJECT
from lab.ports import free_ports
from lab.state import Lab, Record

FILE = PROJECT / "docker-compose.yaml"
#: Keeps in a demo's folder which stack belongs to it.
STACK_FILE = "compose.json"
#: Its container lives as long as the stack, and sees the volume with evidence and archive.
KEEPER = "airflow-scheduler"
READY_SECONDS = 900
_TAIL = 3000


@dataclass(frozen=True)
class Stack:
    """One Compose project.

    Args:
        project: its name; containers, volumes and networks carry it.
        settings: of docker-compose.yaml, beside those of the environment.
    """

    project: str
    settings: Mapping[str, str]

    @classmethod
    def with_free_ports(cls, project: str) -> Stack:
        """Name a project whose published ports nobody uses."""
        ports = free_ports(list(PUBLISHED))
        return cls(project, {setting: str(ports[name]) for name, (setting, _) in PUBLISHED.items()})

    @classmethod
    def of(cls, folder: Path) -> Stack | None:
        """Return the stack that `remember` kept in a folder, if there is one."""
        path = folder / STACK_FILE
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def remember(self, folder: Path) -> None:
        """Keep in a folder which stack this is."""
        (folder / STACK_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    def require_docker(self) -> None:
        """Raise LabError where Docker or its Compose plugin does not answer."""
        for command, need in (
            (["docker", "version"], "Docker's engine; start it, and see that you may use it"),
            (["docker", "compose", "version"], "Compose 2, as plugin of the docker command"),
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                raise LabError(f"{' '.join(command)}: {error}; needed is {need}") from None
            if done.returncode:
                raise LabError(f"{' '.join(command)} failed: {done.stderr.strip()[-300:]}; needed is {need}")

    def build(self) -> None:
        """Build the images; what has not changed is taken from Docker's cache."""
        self._compose("build", shown=True)

    def up(self) -> None:
        """Start every service, and return when a failover can be triggered."""
        self._compose("up", "--wait", "--wait-timeout", str(READY_SECONDS), "--quiet-pull", shown=True)

    def down(self) -> None:
        """Remove containers, networks and volumes."""
        self._compose("down", "--volumes", "--remove-orphans", "--timeout", "5")

    def kill(self, *services: str) -> None:
        """Kill services with -9; Docker does not start again what was killed so."""
        self._compose("kill", *services)

    def start(self, service: str) -> None:
        """Start a killed service, and wait until it is healthy."""
        self._compose("up", "--wait", "--wait-timeout", str(READY_SECONDS), "--no-deps", "--no-recreate", service)

    def read_file(self, service: str, inside: Path) -> str:
        """Return the text of a file of a running container."""
        return self._compose("exec", "--no-TTY", service, "cat", str(inside))

    def copy_out(self, service: str, inside: Path, outside: Path) -> None:
        """Copy what is in a folder of a container; nothing is copied where there is no such folder."""
        outside.mkdir(parents=True, exist_ok=True)
        done = self._run("cp", f"{service}:{inside}/.", str(outside))
        if done.returncode and not _is_missing(done.stderr):
            raise LabError(f"{inside} could not be copied from {service}: {done.stderr.strip()[-_TAIL:]}")

    def keep_logs(self, folder: Path) -> None:
        """Write every service's log into a folder, also of one-shot services."""
        folder.mkdir(parents=True, exist_ok=True)
        for service in self._compose("config", "--services").split():
            with (folder / f"{service}.log").open("wb") as log:
                command = [*self._command(), "logs", "--no-color", "--no-log-prefix", "--timestamps", service]
                subprocess.run(command, cwd=PROJECT, env=self._environment(), stdout=log, stderr=log, check=False)

    def _compose(self, *arguments: str, shown: bool = False) -> str:
        done = self._run(*arguments, shown=shown)
        if done.returncode:
            said = "see above" if shown else f"{done.stdout}{done.stderr}".strip()[-_TAIL:]
            raise LabError(f"docker compose {' '.join(arguments)} failed with {done.returncode}: {said}")
        return done.stdout or ""

    def _run(self, *arguments: str, shown: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command(), *arguments],
            cwd=PROJECT,
            env=self._environment(),
            capture_output=not shown,
            text=True,
            check=False,
        )

    def _command(self) -> list[str]:
        return ["docker", "compose", "--file", str(FILE), "--project-name", self.project, "--progress", "plain"]

    def _environment(self) -> dict[str, str]:
        return os.environ | {"DOCKER_BUILDKIT": "1", **self.settings}


class ContainerLab(Lab):
    """A lab in containers, seen from outside: its addresses are the published ports, its files are copied out."""

    def __init__(self, state: Path, stack: Stack) -> None:
        """Name folder and stack; nothing is read or written yet."""
        super().__init__(state)
        self.stack = stack

    def adopt(self) -> None:
        """Take over the record that secrets-init has made, with the addresses outside."""
        inside = Record(**json.loads(self.stack.read_file(KEEPER, Lab(ROOT).record_path)))
        self.save(replace(inside, hosts={}, ports=inside.ports | inside.published, published={}, project=str(PROJECT)))

    def collected(self, folder: Path) -> Path:
        """Copy a folder's files out of the containers, and return the copy."""
        self.stack.copy_out(KEEPER, ROOT / folder.relative_to(self.root), folder)
        return folder


def _is_missing(text: str) -> bool:
    return "no such file or directory" in text.lower() or "could not find the file" in text.lower()
