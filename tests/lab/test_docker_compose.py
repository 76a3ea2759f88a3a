"""docker-compose.yaml and Dockerfile against the code: nothing here needs Docker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka_dr import __version__

from lab.containers.prepare import prepare_folders
from lab.containers.set_up import JOBS
from lab.containers.stack import HOSTS, PORTS, PUBLISHED, ROOT, SERVICES, SPARK_WORKERS
from lab.environment.airflow_settings import COMPONENTS
from lab.environment.brokers import OUTSIDE_PORT
from lab.environment.state import Lab

CHECKOUT = Path(__file__).parents[2]
TEXT = (CHECKOUT / "docker-compose.yaml").read_text(encoding="utf-8")
DOCKERFILE = (CHECKOUT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICE: dict[str, dict[str, Any]] = COMPOSE["services"]
JOB_NAMES = {name for name in SERVICE if "init" in name}
LASTING = {name: service for name, service in SERVICE.items() if name not in JOB_NAMES}
BIN = CHECKOUT / "lab" / "containers" / "bin"
LIMIT_MB = 8 * 1024


def default(text: str) -> str:
    """Replace every variable of Compose by its default."""
    return re.sub(r"\$\{[A-Z_]+:?-([^}]*)\}", r"\1", text)


def test_the_services_are_those_that_the_code_names() -> None:
    """A host of a connection, a site's process, a component of Airflow, a Spark worker: each is a service."""
    wanted = {*HOSTS.values(), *SERVICES.values(), *(f"airflow-{component}" for component in COMPONENTS)}
    wanted |= {f"spark-worker-{number + 1}" for number in range(SPARK_WORKERS)}
    assert set(LASTING) == wanted
    assert {*JOBS, "secrets-init", "airflow-init"} == JOB_NAMES
    assert all(service.get("hostname", name) == name for name, service in SERVICE.items())


def test_services_last_and_jobs_end() -> None:
    """What lasts is started again and says how it is checked; a job is neither."""
    for service in LASTING.values():
        assert service["restart"] == "unless-stopped" and service["healthcheck"]["test"]
        assert {"interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"])
    for name in JOB_NAMES:
        assert SERVICE[name]["restart"] == "no" and "healthcheck" not in SERVICE[name] and "ports" not in SERVICE[name]


def test_services_wait_for_health_and_for_ended_jobs() -> None:
    """`up --wait` takes a job's end for success only if somebody waits for that end."""
    waited_for = set()
    for service in SERVICE.values():
        for name, how in service.get("depends_on", {}).items():
            ended = "service_completed_successfully"
            assert how == {"condition": ended if name in JOB_NAMES else "service_healthy"}
            waited_for.add(name)
    assert waited_for >= JOB_NAMES


def test_ports_are_published_on_loopback_only() -> None:
    """With the defaults that secrets-init knows, which brokers put into their answers."""
    published = {}
    for name, service in SERVICE.items():
        for port in service.get("ports", ()):
            address, outside, inside = default(port).split(":")
            assert address == "127.0.0.1"
            published[name, int(inside)] = int(outside)
    wanted = {}
    for name, (setting, outside) in PUBLISHED.items():
        assert f"${{{setting}:-{outside}}}" in TEXT
        kafka, page = name in ("primary", "standby"), name == "spark_page"
        inside = OUTSIDE_PORT if kafka else 8080 if page else PORTS[name]
        wanted["spark-master" if page else HOSTS[name], inside] = outside
    assert published == wanted


def test_the_limits_fit_eight_gigabytes() -> None:
    """Of all that runs at once, the last job included; every container has one."""
    limits = {name: int(service["mem_limit"].removesuffix("m")) for name, service in SERVICE.items()}
    lasting = sum(limits[name] for name in LASTING)
    assert max(lasting, lasting - limits["demo-clients"] + limits["stack-init"]) <= LIMIT_MB


def test_images_have_the_projects_version() -> None:
    """No `latest`, here or in the Dockerfile's bases."""
    assert {service["image"].partition(":")[2] for service in SERVICE.values()} == {__version__}
    bases = {line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("FROM ")}
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", DOCKERFILE, re.MULTILINE))
    assert {base for base in bases if not base.startswith("${")} - stages == {"debian:bookworm-slim"}


def test_each_image_is_a_target_and_each_base_a_variable() -> None:
    """Each built by one service and taken by others; an official image can take the place of each base."""
    builders = [service for service in SERVICE.values() if "build" in service]
    built = {service["image"].split(":")[0]: service["build"] for service in builders}
    assert len(builders) == len(built) == 4
    assert all(service["pull_policy"] == ("build" if "build" in service else "never") for service in SERVICE.values())
    assert {name.removeprefix("switchback-"): build["target"] for name, build in built.items()} == {
        name: name for name in ("kafka", "airflow", "spark", "postgres")
    }
    assert {service["image"].split(":")[0] for service in SERVICE.values()} == set(built)
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)", DOCKERFILE, re.MULTILINE))
    for build in built.values():
        assert build["secrets"] == ["ca"]
        assert {name: default(value) for name, value in build["args"].items()} == arguments
        assert f"FROM ${{{build['target'].upper()}_BASE}} AS {build['target']}" in DOCKERFILE


def test_commands_exist() -> None:
    """Each module, job and script that a service runs is in the checkout."""
    scripts = {path.name for path in BIN.iterdir()}
    assert all(path.stat().st_mode & 0o111 for path in BIN.iterdir())
    for name, service in SERVICE.items():
        program, *arguments = service["command"]
        if program == "python":
            assert (CHECKOUT / (arguments[1].replace(".", "/") + ".py")).exists()
            assert arguments[2:] in ([], [name], [str(ROOT / "clients")])
        else:
            assert program in scripts | {"java"}


def test_java_finds_its_argument_files(tmp_path: Path) -> None:
    """Under the names that secrets-init gives them."""
    lab = Lab(tmp_path)
    prepare_folders(lab, {})
    script = (BIN / "kafka-broker").read_text()
    for alias in ("primary", "standby"):
        assert SERVICE[f"kafka-{alias}"]["command"] == ["kafka-broker", alias]
        read = re.findall(r"java \"@\$lab/([^\"]+)\"", script.replace("$1", alias))
        read.append(SERVICE[f"connect-{alias}"]["command"][1].removeprefix(f"@{ROOT}/lab/"))
        assert len(read) == 3 and all((lab.home / path).is_file() for path in read)


@pytest.mark.parametrize("name", sorted(LASTING))
def test_health_checks_ask_the_port_that_the_code_gives(name: str) -> None:
    """Of the service itself; Airflow's components without a server are asked for at the API."""
    test = " ".join(SERVICE[name]["healthcheck"]["test"])
    ports = {HOSTS[key]: PORTS[key] for key in HOSTS}
    if name in ("airflow-dag-processor", "airflow-triggerer"):
        assert f"airflow-api-server {ports['airflow-api-server']} /api/v2/monitor/health" in test
    elif name.startswith("kafka-"):
        assert f"/dev/tcp/{name}/{ports[name]}" in test
    elif name == "spark-master":
        assert "spark-master 8080 /json/" in test
    elif name == "airflow-scheduler":
        assert "127.0.0.1 8974 /health" in test
    elif name.startswith("spark-worker"):
        assert "8081 /json/" in test
    elif name == "postgres":
        assert "pg_isready" in test and "-h 127.0.0.1" in test and ports[name] == 5432
    else:
        assert f"{name} {ports[name]} /" in test


def test_settings_are_read_by_somebody() -> None:
    """Each name in an `environment` stands in the code, and each variable of Compose has a default."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "lab").rglob("*.py"))
    for service in SERVICE.values():
        for name in service.get("environment", {}):
            assert f'"{name}"' in code, name
    assert not re.findall(r"\$\{[A-Z_]+\}", TEXT)


def test_no_secret_in_any_environment() -> None:
    """Secrets are in volumes; what the file hands out holds none, and the build's secret is no file of the checkout."""
    names = {name for service in SERVICE.values() for name in service.get("environment", {})}
    assert not [name for name in names if re.search("PASSWORD|SECRET|TOKEN|_KEY|_CONN_", name)]
    assert COMPOSE["secrets"] == {"ca": {"file": "${SWITCHBACK_CA_FILE:-/dev/null}"}}
    assert not re.search(r"^(ENV|ARG).*(PASSWORD|SECRET|TOKEN)", DOCKERFILE, re.MULTILINE)


def test_nobody_is_root_inside() -> None:
    """Each final image ends as user 1000, without capabilities and without a way to new ones."""
    for target in ("kafka", "airflow", "spark", "postgres"):
        stage = DOCKERFILE.split(f" AS {target}\n")[1].split("\nFROM ")[0]
        assert stage.rstrip().endswith("USER 1000:1000")
    assert all(service["cap_drop"] == ["ALL"] and "user" not in service for service in SERVICE.values())


def test_what_the_build_copies_is_sent_to_it() -> None:
    """Every file that the Dockerfile copies is in the checkout, and .dockerignore lets it pass."""
    sent = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for path in line.split()[:-1]:
            assert (CHECKOUT / path).exists(), path
            assert any(path == allowed or path.startswith(f"{allowed}/") for allowed in sent), path


def test_volumes_are_named_and_have_their_folder_in_an_image() -> None:
    """A volume takes its first owner from the image, so the image has each folder that a volume takes."""
    for name, service in SERVICE.items():
        target = service["image"].partition(":")[0].removeprefix("switchback-")
        stage = DOCKERFILE.split(f" AS {target}\n")[1].split("\nFROM ")[0]
        made = {f"{ROOT}/{path}" for path in re.search(r"RUN .*?user-with-folders([ a-z/-]+)", stage)[1].split()}
        for volume in service.get("volumes", ()):
            if isinstance(volume, dict):
                assert volume["type"] == "bind" and (CHECKOUT / default(volume["source"])).is_dir()
                assert volume["read_only"] and volume["bind"] == {"create_host_path": False}
                continue
            source, inside = volume.split(":")[:2]
            assert source in COMPOSE["volumes"], name
            assert inside in {str(ROOT), *made} or f"mkdir -p {inside}" in stage, (name, inside)


def test_what_is_mounted_from_the_checkout_is_in_no_image_and_no_commit() -> None:
    """The folder of one's own settings may hold passwords."""
    source = default(next(v["source"] for v in SERVICE["airflow-scheduler"]["volumes"] if isinstance(v, dict)))
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    assert ignored.index(source.removeprefix("./")) > ignored.index("!lab")
    assert f"/{source.removeprefix('./')}/*" in (CHECKOUT / ".gitignore").read_text().splitlines()
