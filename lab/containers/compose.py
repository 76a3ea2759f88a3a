"""Control the stack of docker-compose.yaml from the host, by the docker command and the store's published port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import fsspec

from lab.checker.stored.stated_place import OPTIONS
from lab.containers.stack import ROOT, SERVICES, TASK_WORKERS
from lab.environment.airflow_settings import store_login
from lab.environment.ports import free_ports
from lab.environment.production.profile import PRODUCTION, SMALL, STORE
from lab.environment.state import Lab, LabRecord, write_private
from lab.environment.topology_file import store_uri
from lab.errors import LabError
from lab.install.jars import PROJECT

_FILE = PROJECT / "docker-compose.yaml"
#: The files of docker compose by profile; each later one is laid over the first.
FILES = {PRODUCTION: (_FILE,), SMALL: (_FILE, PROJECT / "docker-compose.small.yaml")}
#: File in a demo's folder that names the folder's stack.
STACK_FILE = "compose.json"
#: The service from which files are read: its container runs as long as the stack, and mounts evidence and archive.
KEEPER = "airflow-scheduler"
OLDEST_COMPOSE = (2, 24)
BUILD_SECONDS, READY_SECONDS, REQUEST_SECONDS = 7200, 1800, 120
#: Environment variables that docker-compose.yaml gets in every stack, because they only change how images are built.
BUILD_SETTINGS = ("SWITCHBACK_CA_FILE", "KAFKA_BASE", "AIRFLOW_BASE", "SPARK_BASE", "POSTGRES_BASE")
_LABEL = "com.docker.compose.project"
_TAIL = 3000


@dataclass(frozen=True)
class Stack:
    """One Compose project.

    Args:
        project: the project's name, also part of the names of containers, volumes and networks.
        settings: variables of docker-compose.yaml; the environment and `.env` are ignored, so that this stack never
            works on a user's own clusters.
        profile: `small` or `production`.
        laid_over: further files of docker compose, each laid over those before it.
    """

    project: str
    settings: Mapping[str, str]
    profile: str = SMALL
    laid_over: Sequence[str] = ()

    @classmethod
    def in_folder(
        cls, folder: Path, profile: str = SMALL, laid_over: Sequence[str] = (), **more_settings: str
    ) -> Stack:
        """Return a new stack with free ports, named like the folder; write the folder's compose.json; start nothing."""
        services, settings_folder = SERVICES[profile].published, folder / "settings"
        ports = free_ports(list(services))
        settings_folder.mkdir(exist_ok=True)
        settings = {"SWITCHBACK_SETTINGS": str(settings_folder), **more_settings}
        settings |= {setting: str(ports[name]) for name, (setting, _) in services.items()}
        stack = cls(folder.name.lower(), settings, profile, list(laid_over))
        (folder / STACK_FILE).write_text(json.dumps(asdict(stack)), encoding="utf-8")
        return stack

    @classmethod
    def of(cls, folder: Path) -> Stack | None:
        """Return a folder's stack; None if the folder has none."""
        path = folder / STACK_FILE
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def require_docker(self) -> None:
        """Check that Docker's engine and a recent Compose are available.

        Raises:
            LabError: Docker's engine does not answer, or Compose is absent or too old.
        """
        _answer(["docker", "version"], "start Docker's engine, and make sure that your user has access to it")
        need = f"install Compose {'.'.join(map(str, OLDEST_COMPOSE))} or newer as plugin of the docker command"
        version = _answer(["docker", "compose", "version", "--short"], need)
        numbers = re.match(r"v?(\d+)\.(\d+)", version)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST_COMPOSE:
            raise LabError(f"docker compose is of version {version.strip()!r}; {need}")

    def build(self) -> None:
        """Build the images; unchanged layers come from Docker's cache."""
        self._compose("build", seconds=BUILD_SECONDS, shown=True)

    def up(self) -> None:
        """Start every service, and wait until a failover can be triggered.

        Raises:
            LabError: a service is not healthy.
        """
        # Not --wait-timeout: Compose 2.40 reports no error after this timeout.
        self._compose("up", "--wait", seconds=READY_SECONDS, shown=True)
        unhealthy = [f"{name} is {state}" for name, state in self.states().items() if state not in ("healthy", "ended")]
        if unhealthy:
            raise LabError(
                f"the stack is up, but {'; '.join(unhealthy)}; read the logs of these services with: docker compose"
                f" --project-name {self.project} logs"
            )

    def states(self) -> dict[str, str]:
        """Return, by service, the state of its container: `healthy`, `ended`, or else Docker's own state.

        `ended` means that the container ended with exit code 0. Services without container are left out.
        """
        rows = [json.loads(line) for line in self._compose("ps", "--all", "--format", "json").splitlines()]
        return {row["Service"]: _state(row) for row in rows}

    def down(self) -> None:
        """Remove containers, networks and volumes; repeat until none is left, because an `up` may still be running."""
        for _ in range(5):
            self._compose("down", "--volumes", "--remove-orphans", "--timeout", "5", seconds=READY_SECONDS)
            time.sleep(1)
            list_command = ["docker", "ps", "--all", "--quiet", "--filter", f"label={_LABEL}={self.project}"]
            if not _run(list_command, os.environ, REQUEST_SECONDS).strip():
                return
        raise LabError(
            f"containers of the Compose project {self.project} are created again after each removal; end the `docker"
            " compose up` that still runs, then remove the containers with: docker compose --project-name"
            f" {self.project} down --volumes"
        )

    def kill(self, *services: str) -> None:
        """Kill services with -9; Docker does not restart killed services."""
        self._compose("kill", *services)

    def start(self, *services: str) -> None:
        """Start killed services, and wait until each is healthy."""
        self._compose("up", "--wait", "--no-deps", "--no-recreate", "--no-build", *services, seconds=READY_SECONDS)
        states = self.states()
        for service in services:
            if states[service] != "healthy":
                raise LabError(
                    f"the service {service} was started again and is {states[service]}, not healthy; read its log"
                    f" with: docker compose --project-name {self.project} logs {service}"
                )

    def read_file(self, service: str, inside: Path) -> str:
        """Return the text of a file of a running container."""
        return self._compose("exec", "--no-TTY", service, "cat", str(inside))

    def copy_out(self, service: str, inside: Path, outside: Path) -> None:
        """Copy the files of a container's folder; copy nothing if the folder does not exist."""
        outside.mkdir(parents=True, exist_ok=True)
        try:
            self._compose("cp", f"{service}:{inside}/.", str(outside))
        except LabError as error:
            if not re.search("no such file or directory|could not find the file", str(error), re.IGNORECASE):
                raise

    def keep_logs(self, folder: Path) -> None:
        """Write the logs of all services, of the init jobs and of Airflow's tasks into a folder of the host."""
        folder.mkdir(parents=True, exist_ok=True)
        for service in self._compose("config", "--services").split():
            text = self._compose("logs", "--no-color", "--no-log-prefix", "--timestamps", service)
            (folder / f"{service}.log").write_text(text, encoding="utf-8")
        for service in (KEEPER, *(TASK_WORKERS if self.profile == PRODUCTION else ())):
            self.copy_out(service, ROOT / "lab" / "logs" / "airflow", folder / "airflow" / service)

    def _compose(self, *arguments: str, seconds: float = REQUEST_SECONDS, shown: bool = False) -> str:
        # Without --env-file Compose would read the checkout's `.env`.
        files = [word for file in (*FILES[self.profile], *self.laid_over) for word in ("--file", str(file))]
        command = ["docker", "compose", *files, "--project-name", self.project, "--env-file", os.devnull]
        return _run([*command, "--progress", "plain", *arguments], self._environment(), seconds, shown)

    def _environment(self) -> dict[str, str]:
        names = re.findall(r"\$\{([A-Z0-9_]+)", _FILE.read_text(encoding="utf-8"))
        compose_variables = set(names) - set(BUILD_SETTINGS)
        inherited = {name: value for name, value in os.environ.items() if name not in compose_variables}
        return inherited | {"DOCKER_BUILDKIT": "1", **self.settings}


class ContainerLab(Lab):
    """A lab in containers, used from the host: addresses are published ports, files are copied out."""

    def __init__(self, state: Path, stack: Stack) -> None:
        """Set folder and stack; nothing is read or written yet."""
        super().__init__(state)
        self.stack = stack

    def adopt(self) -> None:
        """Copy the lab's record (settings and secrets) from the containers into the lab's folder on the host.

        Ports in the copy are those that the stack publishes on the host. With them comes the certificate of the CA.
        """
        inside = LabRecord(**json.loads(self.stack.read_file(KEEPER, Lab(ROOT).record_path)))
        self.save(replace(inside, hosts={}, ports=inside.ports | inside.published, published={}, project=str(PROJECT)))
        if inside.is_production:
            text = self.stack.read_file(KEEPER, Lab(ROOT).authority.certificate)
            write_private(self.authority.certificate, text)
            # The checker, which runs in this process, reads exported records from the store.
            os.environ[OPTIONS] = json.dumps(store_login(self.load()))

    def collected(self, folder: Path) -> Path:
        """Copy a folder's files from the containers or the store to the same path on the host; return `folder`."""
        if STORE in self.load().passwords:
            self._copy_stored(folder)
        else:
            self.stack.copy_out(KEEPER, ROOT / folder.relative_to(self.root), folder)
        return folder

    def _copy_stored(self, folder: Path) -> None:
        """Copy what the store has of a folder, each file with the time of its last change, except copies that exist."""
        files, root = fsspec.core.url_to_fs(
            store_uri(self, folder), skip_instance_cache=True, use_listings_cache=False, **store_login(self.load())
        )
        for place, facts in files.find(root, detail=True).items():
            copy, changed = folder / place.removeprefix(f"{root}/"), facts["LastModified"].timestamp()
            if copy.exists() and (copy.stat().st_mtime, copy.stat().st_size) == (changed, facts["size"]):
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(place, str(copy))
            os.utime(copy, (changed, changed))


def _state(row: Mapping[str, object]) -> str:
    if row["State"] == "exited" and row["ExitCode"] == 0:
        return "ended"
    return str((row["State"] == "running" and row["Health"]) or row["State"])


def _answer(command: list[str], need: str) -> str:
    """Run a short docker command and return its output.

    Args:
        need: what to do if the command fails, for the error's text.
    """
    try:
        return _run(command, dict(os.environ), REQUEST_SECONDS)
    except (OSError, LabError) as error:
        raise LabError(f"{error}; {need}") from None


def _run(command: list[str], environment: Mapping[str, str], seconds: float, shown: bool = False) -> str:
    """Run a command in its own session and return its output; kill the whole session on interruption or timeout.

    Args:
        shown: print the command's output instead of returning it.

    Raises:
        LabError: the command failed or timed out.
    """
    capture = None if shown else subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=PROJECT, env=dict(environment), stdout=capture, stderr=capture, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise LabError(
            f"{' '.join(command)} had not ended after {seconds:.0f} s, and was killed; check with `docker ps` which"
            " containers were started"
        ) from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        details = "see above" if shown else f"{output}{errors}".strip()[-_TAIL:]
        raise LabError(f"{' '.join(command)} failed with exit code {process.returncode}: {details}")
    return output or ""
