"""Set-up before anything is installed: Java, the virtual environment, the jars. Run by the system's Python.

`python -m lab.install.setup postgresql` installs the server that tests of the journal start.

Each step looks first whether it has been done, can be cut short at any moment, and is then done again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from lab.install.jars import PROJECT, ensure_jars, jars_folder, ready_jars

OLDEST_JAVA = 17
OLDEST_PYTHON = (3, 11)
VENV = PROJECT / ".venv"
LOCK = PROJECT / "requirements.lock"
BUILD_LOCK = PROJECT / "requirements-build.txt"
STAMP = VENV / "installed-from"
FAST_SPARK = VENV / "spark-classes.jsa"
POSTGRESQL = Path("/usr/lib/postgresql")
#: Read by Debian's packages before they make a database cluster of their own.
CREATE_CLUSTER = Path("/etc/postgresql-common/createcluster.d/switchback.conf")
NO_POSTGRESQL = (
    "no PostgreSQL server is installed here; install Debian's postgresql package, or give an empty database's URL in"
    " SWITCHBACK_TEST_POSTGRES"
)


def main() -> int:
    """Do what is missing; answers the exit code."""
    if sys.version_info < OLDEST_PYTHON:
        raise SystemExit(
            f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed; this is {sys.version.split()[0]}"
        )
    if sys.argv[1:] == ["postgresql"]:
        ensure_postgresql()
        return 0
    ensure_java()
    ensure_packages()
    ensure_fast_spark()
    (ivy,) = VENV.glob("lib/python3*/site-packages/pyspark/jars/ivy-*.jar")
    _step("jars", ready_jars() is not None, f"fetching from Maven Central into {jars_folder()}, two minutes")
    folder = ensure_jars(ivy, find_java())
    print(f"jars: checked, in {folder}", flush=True)
    return 0


def find_java() -> str:
    """JAVA_HOME's Java if set, else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def java_version() -> int | None:
    """The major version of Java, None if there is none."""
    try:
        told = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return None
    found = re.search(r'version "(\d+)', told)
    return int(found.group(1)) if found else None


def ensure_java() -> None:
    """Install Java where this may be done, else say what is missing."""
    version = java_version()
    suitable = version is not None and version >= OLDEST_JAVA
    _step("java", suitable, "installing openjdk-17-jre-headless")
    if suitable:
        return
    if not _may_apt_install():
        raise SystemExit(
            f"Java {OLDEST_JAVA} or newer is needed, found {version or 'none'}; install openjdk-17-jre-headless or the"
            " like"
        )
    _apt_install("openjdk-17-jre-headless")
    if (java_version() or 0) < OLDEST_JAVA:
        raise SystemExit(
            f"Java was installed, but {find_java()} is not {OLDEST_JAVA} or newer; unset JAVA_HOME or correct it"
        )


def postgresql_programs() -> Path | None:
    """The folder of the newest PostgreSQL server's programs as Debian lays them out; None without one."""
    folders = [found.parent for found in POSTGRESQL.glob("*/bin/initdb") if (found.parent / "postgres").exists()]
    return max(folders, key=lambda folder: float(folder.parent.name), default=None)


def ensure_postgresql() -> None:
    """Install a PostgreSQL server where this may be done, else say what is missing; no server is started."""
    if os.environ.get("SWITCHBACK_TEST_POSTGRES"):
        _step("postgresql", False, "the server of SWITCHBACK_TEST_POSTGRES is used")
        return
    if postgresql_programs() is not None:
        _step("postgresql", True, "")
        return
    if _may_apt_install():
        _step("postgresql", False, "installing postgresql, without a cluster of its own")
        # apt-get says what went wrong.
        with suppress(subprocess.CalledProcessError):
            _install_without_cluster()
    if postgresql_programs() is None:
        _step("postgresql", False, f"{NO_POSTGRESQL}; tests on it are skipped")


def _install_without_cluster() -> None:
    """Debian's package would make a cluster and start a server on it, now and whenever the machine starts."""
    made = [folder for folder in (CREATE_CLUSTER.parent, *CREATE_CLUSTER.parent.parents) if not folder.exists()]
    CREATE_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
    CREATE_CLUSTER.write_text("create_main_cluster = false\n")
    try:
        _apt_install("postgresql")
    finally:
        CREATE_CLUSTER.unlink()
        for folder in made:
            if not any(folder.iterdir()):
                folder.rmdir()


def _may_apt_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _apt_install(package: str) -> None:
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
        subprocess.run(command, check=True, env=quiet)


def ensure_packages() -> None:
    """Install exactly what the locks list; the stamp is written last and names the locks it was made from."""
    digest = hashlib.sha256(BUILD_LOCK.read_bytes() + LOCK.read_bytes()).hexdigest()
    done = STAMP.exists() and STAMP.read_text().strip() == digest and (VENV / "bin" / "python").exists()
    _step("packages", done, "installing from requirements.lock into .venv, one to two minutes")
    if done:
        return
    for made in (STAMP, FAST_SPARK):
        made.unlink(missing_ok=True)
    if not _python_works():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    start = time.monotonic()
    python = str(VENV / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    _install([*pip, "-r", str(BUILD_LOCK)], {})
    # PySpark comes as archives only. They are built with the tools just installed, whose hashes are known too.
    # The system's certificates, as pip takes them: a proxy that inspects TLS has its own.
    uv = [str(VENV / "bin" / "uv"), "--system-certs", "pip", "install", "--python", python]
    uv += ["--require-hashes", "--no-build-isolation"]
    _install([*uv, "-r", str(LOCK)], _index_of_pip(python))
    _compile_packages()
    STAMP.write_text(digest)
    print(f"packages: installed in {time.monotonic() - start:.0f} s", flush=True)


def _install(command: list[str], settings: dict[str, str]) -> None:
    if subprocess.run(command, cwd=PROJECT, env=os.environ | settings, check=False).returncode:
        raise SystemExit(f"packages: {command[-1]} could not be installed, see above; run `make setup` again")


def _index_of_pip(python: str) -> dict[str, str]:
    """The package index that pip is configured for, as uv's setting; uv reads none of pip's."""
    command = [python, "-m", "pip", "config", "get", "global.index-url"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    index = os.environ.get("PIP_INDEX_URL") or (asked.stdout.strip() if asked.returncode == 0 else "")
    return {"UV_DEFAULT_INDEX": index} if index and "UV_DEFAULT_INDEX" not in os.environ else {}


def _compile_packages() -> None:
    """Compile once, on all cores: else each start of Airflow and Spark may, where bytecode cannot be written."""
    command = [str(VENV / "bin" / "python"), "-m", "compileall", "-q", "-j", "0", str(VENV / "lib")]
    # Some packages carry templates that are no valid Python; those are not needed.
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def ensure_fast_spark() -> None:
    """Pay once what every start of Spark would cost again, see `lab.install.spark_warm_up`."""
    done = FAST_SPARK.exists()
    _step("spark", done, "compiling what every start of Spark would compile again, 15 s")
    if not done:
        subprocess.run([str(VENV / "bin" / "python"), "-m", "lab.install.spark_warm_up"], cwd=PROJECT, check=True)


def _python_works() -> bool:
    python = VENV / "bin" / "python"
    command = [str(python), "-m", "pip", "--version"]
    return python.exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def _step(name: str, done: bool, action: str) -> None:
    print(f"{name}: {'already there' if done else action}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
