"""docker-compose.yaml and Dockerfile against the code: nothing here needs Docker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kafka_dr import __version__

from lab.containers.prepare import prepare_folders
from lab.containers.set_up import JOBS
from lab.containers.stack import ROOT, SERVICES, SPARK_MACHINES, TASK_WORKERS
from lab.environment.airflow_settings import COMPONENTS
from lab.environment.brokers import OUTSIDE_PORT
from lab.environment.production.profile import PRODUCTION, PROFILES, SMALL
from lab.environment.state import Lab
from tests.lab.compose_files import read_stack

CHECKOUT = Path(__file__).parents[2]
TEXT = (CHECKOUT / "docker-compose.yaml").read_text(encoding="utf-8")
DOCKERFILE = (CHECKOUT / "Dockerfile").read_text(encoding="utf-8")
STACKS = {profile: read_stack(profile) for profile in PROFILES}
BIN = CHECKOUT / "lab" / "containers" / "bin"
#: Of the memory limits of all that runs at once, in GB.
LIMIT_GB = {SMALL: 8, PRODUCTION: 17}
TARGETS = ("kafka", "airflow", "worker-1", "worker-2", "spark", "postgres", "redis", "store")
#: Targets whose base is another image of this file; an official image can take the place of the others' bases.
WITHOUT_BASE = ("worker-1", "worker-2", "redis", "store")


Services = dict[str, dict[str, Any]]


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    """Each form of the stack in turn."""
    name: str = request.param
    return name


@pytest.fixture
def services(profile: str) -> Services:
    """The services of one form."""
    found: Services = STACKS[profile]["services"]
    return found


def jobs_of(services: Services) -> set[str]:
    """Names of the services that end."""
    return {name for name in services if name.endswith("-init")}


def volumes_of(service: dict[str, Any]) -> set[str]:
    """Names of the volumes that a service mounts."""
    return {volume.split(":")[0] for volume in service.get("volumes", ()) if isinstance(volume, str)}


def stage_of(target: str) -> str:
    """The part of the Dockerfile that makes an image."""
    return re.split(r"\n(?:#.*\n)*FROM ", DOCKERFILE.split(f" AS {target}\n")[1])[0]


def user_of(target: str) -> str:
    """Who runs an image."""
    return re.findall(r"^USER (.+)$", stage_of(target), re.MULTILINE)[-1]


def default(text: str) -> str:
    """Replace every variable of Compose by its default."""
    return re.sub(r"\$\{[A-Z0-9_]+:?-([^}]*)\}", r"\1", text)


def test_the_services_are_those_that_the_code_names(profile: str, services: Services) -> None:
    """A host of a connection, a site's container, a component of Airflow, a worker: each is a service."""
    wanted = {*SERVICES[profile].hosts.values(), *(f"airflow-{component}" for component in COMPONENTS), *SPARK_MACHINES}
    wanted |= {service for site in SERVICES[profile].sites.values() for service in site}
    wanted |= set(TASK_WORKERS) if profile == PRODUCTION else set()
    jobs = jobs_of(services)
    assert set(services) - jobs == wanted
    assert {*JOBS, "secrets-init", "airflow-init"} - jobs == ({"store-init"} if profile == SMALL else set())
    assert all(service.get("hostname", name) == name for name, service in services.items())


def test_services_last_and_jobs_end(services: Services) -> None:
    """What lasts is started again and says how it is checked; a job is neither."""
    jobs = jobs_of(services)
    for name in set(services) - jobs:
        assert services[name]["restart"] == "unless-stopped" and services[name]["healthcheck"]["test"]
        assert {"interval", "timeout", "retries", "start_period"} <= set(services[name]["healthcheck"])
    for name in jobs:
        job = services[name]
        assert job["restart"] == "no" and "healthcheck" not in job and "ports" not in job


def test_services_wait_for_health_and_for_ended_jobs(services: Services) -> None:
    """`up --wait` takes a job's end for success only if somebody waits for that end."""
    waited_for, jobs = set(), jobs_of(services)
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            ended = "service_completed_successfully"
            assert name in services and how == {"condition": ended if name in jobs else "service_healthy"}
            waited_for.add(name)
    assert waited_for >= jobs


def test_ports_are_published_on_loopback_only(profile: str, services: Services) -> None:
    """With the defaults that secrets-init knows, which brokers put into their answers."""
    published = {}
    for name, service in services.items():
        for port in service.get("ports", ()):
            address, outside, inside = default(port).split(":")
            assert address == "127.0.0.1"
            published[name, int(inside)] = int(outside)
    wanted, known = {}, SERVICES[profile]
    for name, (setting, outside) in known.published.items():
        assert services["secrets-init"]["environment"][setting] == f"${{{setting}:-{outside}}}"
        page = name == "spark_page"
        inside = OUTSIDE_PORT if name.startswith(("primary", "standby")) else 8080 if page else known.ports[name]
        wanted["spark-master" if page else known.hosts[name], inside] = outside
    assert published == wanted
    assert services["secrets-init"]["environment"]["PROFILE"] == profile


def test_the_limits_fit(profile: str, services: Services) -> None:
    """Of all that runs at once, the last job included; every container has one."""
    limits = {name: int(service["mem_limit"].removesuffix("m")) for name, service in services.items()}
    lasting = sum(limits[name] for name in set(services) - jobs_of(services))
    assert max(lasting, lasting - limits["demo-clients"] + limits["stack-init"]) <= LIMIT_GB[profile] * 1024


def test_images_have_the_projects_version(services: Services) -> None:
    """No `latest`, here or in the Dockerfile's bases."""
    assert {service["image"].partition(":")[2] for service in services.values()} == {__version__}
    bases = {line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("FROM ")}
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", DOCKERFILE, re.MULTILINE))
    assert {base for base in bases if not base.startswith("${")} - stages == {"debian:bookworm-slim"}


def test_each_image_is_a_target_and_each_base_a_variable(profile: str, services: Services) -> None:
    """Each built by one service and taken by others; an official image can take the place of each base."""
    builders = [service for service in services.values() if "build" in service]
    built = {service["image"].split(":")[0]: service["build"] for service in builders}
    wanted = TARGETS if profile == PRODUCTION else ("kafka", "airflow", "spark", "postgres")
    assert len(builders) == len(built) == len(wanted)
    assert all(service["pull_policy"] == ("build" if "build" in service else "never") for service in services.values())
    assert {name.removeprefix("switchback-"): build["target"] for name, build in built.items()} == {
        name: name for name in wanted
    }
    assert {service["image"].split(":")[0] for service in services.values()} == set(built)
    arguments = dict(re.findall(r"^ARG (\w+_BASE)=(\S+)", DOCKERFILE, re.MULTILINE))
    for build in built.values():
        assert build["secrets"] == ["ca"]
        assert {name: default(value) for name, value in build["args"].items()} == arguments
        if build["target"] not in WITHOUT_BASE:
            assert f"FROM ${{{build['target'].upper()}_BASE}} AS {build['target']}" in DOCKERFILE


def test_commands_exist(services: Services) -> None:
    """Each module, job and script that a service runs is in the checkout."""
    scripts = {path.name for path in BIN.iterdir()}
    assert all(path.stat().st_mode & 0o111 for path in BIN.iterdir())
    for name, service in services.items():
        program, *arguments = service["command"]
        if program == "python":
            assert (CHECKOUT / (arguments[1].replace(".", "/") + ".py")).exists()
            assert arguments[2:] in ([], [name], [str(ROOT / "clients")])
        else:
            assert program in scripts | {"java"}


def test_java_finds_its_argument_files(
    profile: str, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the names that secrets-init gives them; what the settings of Kafka name is in what its containers mount."""
    lab = Lab(tmp_path)
    prepare_folders(lab, {"PROFILE": profile})
    nodes = [service for service in services.values() if service["command"][0] == "kafka-node"]
    assert len(nodes) == (8 if profile == PRODUCTION else 2)
    read = [f"arguments/{kind}{node['command'][1]}" for node in nodes for kind in ("", "format-")]
    read += [f"arguments/{node['command'][1]}.properties" for node in nodes]
    for name, service in services.items():
        if name.startswith("connect-"):
            read.append(service["command"][1].removeprefix(f"@{ROOT}/lab/"))
    assert all((lab.home / path).is_file() for path in read)
    named = {
        path
        for file in (lab.home / "arguments").glob("*.properties")
        for path in re.findall(rf"{lab.home}/certificates/(\S+)", file.read_text())
    }
    assert bool(named) == (profile == PRODUCTION)
    assert all((lab.home / "arguments" / name).is_file() for name in named)


def test_a_node_keeps_its_log_in_its_own_volume(profile: str, services: Services, tmp_path: Path) -> None:
    """Of the node's name, mounted at the folder of its log or above it."""
    lab = Lab(tmp_path)
    prepare_folders(lab, {"PROFILE": profile})
    for name, service in services.items():
        if service["command"][0] == "kafka-node":
            (own,) = (volume.split(":") for volume in service["volumes"] if "/brokers" in volume)
            text = (lab.home / "arguments" / f"{service['command'][1]}.properties").read_text()
            (logs,) = re.findall(r"^log\.dirs=(.+)$", text, re.MULTILINE)
            assert own[0] == name
            assert Path(logs).relative_to(lab.root).is_relative_to(Path(own[1]).relative_to(ROOT))


#: What the health check of a service is, if it asks no port of the service's own over HTTP.
OWN_CHECKS = {
    "spark-master": "spark-master 8080 /json/",
    "airflow-scheduler": "127.0.0.1 8974 /health",
    "airflow-dag-processor": "airflow-api-server 8080 /api/v2/monitor/health",
    "airflow-triggerer": "airflow-api-server 8080 /api/v2/monitor/health",
    "redis": "redis-process ping",
    "postgres": '/pg_isready" -q -h 127.0.0.1',
}
#: The same by the beginning of a service's name.
CHECKS = {
    "kafka": "/dev/tcp/$$HOSTNAME/{port}",
    "connect": "connect-answers",
    "spark": "8081 /json/",
    "airflow-worker": "lab.containers.worker_answers",
    "": "{name} {port} /",
}


def test_health_checks_ask_the_port_that_the_code_gives(profile: str, services: Services) -> None:
    """Of the service itself; Airflow's components without a server are asked for at the API."""
    known = SERVICES[profile]
    ports = {known.hosts[key]: known.ports[key] for key in known.hosts if not key.startswith("certificates")}
    assert (ports["airflow-api-server"], ports["postgres"], ports["connect-primary"]) == (8080, 5432, 8083)
    for name in set(services) - jobs_of(services):
        test = " ".join(services[name]["healthcheck"]["test"])
        kind = next(kind for kind in CHECKS if name.startswith(kind))
        assert OWN_CHECKS.get(name, CHECKS[kind]).format(name=name, port=ports.get(name)) in test, name


#: Settings that Java itself reads.
JAVA_SETTINGS = {"_JAVA_OPTIONS"}


def test_settings_are_read_by_somebody() -> None:
    """Each name in an `environment` stands in the code, and each variable of Compose has a default."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "lab").rglob("*.py"))
    named = {setting for services in SERVICES.values() for setting, _ in services.published.values()}
    for service in STACKS[PRODUCTION]["services"].values():
        for name in service.get("environment", {}):
            assert name in named | JAVA_SETTINGS or f'"{name}"' in code, name
    assert not re.findall(r"\$\{[A-Z0-9_]+\}", TEXT)


def test_no_secret_in_any_environment() -> None:
    """Secrets are in volumes; what the file hands out holds none, and the build's secret is no file of the checkout."""
    services = [service for stack in STACKS.values() for service in stack["services"].values()]
    names = {name for service in services for name in service.get("environment", {})}
    assert not [name for name in names if re.search("PASSWORD|SECRET|TOKEN|_KEY|_CONN_", name)]
    for stack in STACKS.values():
        assert stack["secrets"] == {"ca": {"file": "${SWITCHBACK_CA_FILE:-/dev/null}"}}
    assert not re.search(r"^(ENV|ARG).*(PASSWORD|SECRET|TOKEN)", DOCKERFILE, re.MULTILINE)


def test_nobody_is_root_inside(services: Services) -> None:
    """Each final image ends as a user of group 1000, without capabilities and without a way to new ones."""
    assert [user_of(target) for target in TARGETS if not re.fullmatch(r"100[0-2]:1000", user_of(target))] == []
    assert all(service["cap_drop"] == ["ALL"] and "user" not in service for service in services.values())


def test_machines_that_run_tasks_share_no_folder() -> None:
    """Neither with each other nor with any other service; each has a user of its own, and copies of what it needs."""
    services = STACKS[PRODUCTION]["services"]
    machines = (*TASK_WORKERS, *SPARK_MACHINES)
    mounted = {name: volumes_of(service) for name, service in services.items()}
    for name in machines:
        others = [volumes for other, volumes in mounted.items() if other not in (name, "secrets-init")]
        assert mounted[name] and not mounted[name] & set().union(*others), name
    users = [user_of(services[name]["build"]["target"]) for name in TASK_WORKERS]
    assert len({user_of("airflow"), *users}) == 3
    handed = [volume.split(":") for volume in services["secrets-init"]["volumes"] if "/machines/" in volume]
    for name in machines:
        (volume,) = (volume for volume, inside in handed if inside == f"{ROOT}/machines/{name}")
        assert volume in mounted[name]


def test_what_the_build_copies_is_sent_to_it() -> None:
    """Every file that the Dockerfile copies is in the checkout, and .dockerignore lets it pass."""
    sent = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for path in line.split()[:-1]:
            assert (CHECKOUT / path).exists(), path
            assert any(path == allowed or path.startswith(f"{allowed}/") for allowed in sent), path


def test_volumes_are_named_and_have_their_folder_in_an_image(profile: str, services: Services) -> None:
    """A volume takes its first owner from the image, so the image has each folder that a volume takes."""
    named = set().union(*(volumes_of(service) for service in services.values()))
    assert profile == SMALL or named == set(STACKS[profile]["volumes"])
    for name, service in services.items():
        target = service["image"].partition(":")[0].removeprefix("switchback-")
        stage = DOCKERFILE.split(f" AS {target}\n")[1].split("\nFROM ")[0]
        given = re.search(r"RUN .*?user-with-folders((?:[ \\\n]+[a-z][a-z0-9/-]*)*)", stage)[1].replace("\\", " ")
        made = {f"{ROOT}/{path}" for word in given.split() for path in (word, str(Path(word).parent))}
        for volume in service.get("volumes", ()):
            if isinstance(volume, dict):
                assert volume["type"] == "bind" and (CHECKOUT / default(volume["source"])).is_dir()
                assert volume["read_only"] and volume["bind"] == {"create_host_path": False}
                continue
            source, inside, *options = volume.split(":")
            assert source in STACKS[profile]["volumes"], name
            in_image = inside in {str(ROOT), *made} or re.search(rf"(mkdir|chown) .*{inside}", stage)
            assert in_image or options == ["ro,nocopy"], (name, inside)


def test_what_is_mounted_from_the_checkout_is_in_no_image_and_no_commit() -> None:
    """The folder of one's own settings may hold passwords."""
    volumes = STACKS[PRODUCTION]["services"]["airflow-scheduler"]["volumes"]
    source = default(next(volume["source"] for volume in volumes if isinstance(volume, dict)))
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    assert ignored.index(source.removeprefix("./")) > ignored.index("!lab")
    assert f"/{source.removeprefix('./')}/*" in (CHECKOUT / ".gitignore").read_text().splitlines()
