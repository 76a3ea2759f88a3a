"""Set up a new machine: Java, the virtual environment, the jars. Runs with the system's Python.

`python -m lab.install.setup postgresql jdk faketime dns` installs what only some tests need: the PostgreSQL server that
tests of the journal start, the compiler of Java classes that tests and benchmarks bring, the library that sets the
clock of one process, and the DNS servers and resolver by which clients are redirected.

Each step is skipped if it was done before; an interrupted step is repeated.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
#: Debian's packages read this file before they create a database cluster.
CREATE_CLUSTER = Path("/etc/postgresql-common/createcluster.d/switchback.conf")
#: Debian's packages run this program before they start a service; 101 forbids it.
SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")
NO_POSTGRESQL = (
    "no PostgreSQL server is installed here; install Debian's postgresql package, or give an empty database's URL in"
    " SWITCHBACK_TEST_POSTGRES"
)
NO_COMPILER = (
    f"no Java compiler of version {OLDEST_JAVA} or newer is installed here; install one, as root for example with:"
    " python3 -m lab.install.setup jdk"
)


def main() -> int:
    """Run the steps that were not done before; return 0.

    Raises:
        SystemExit: a step failed; the text says what to install or correct.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise SystemExit(
            f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed; this is {sys.version.split()[0]};"
            " install a newer Python, and run: make setup PYTHON=<its path>"
        )
    parts = {
        "postgresql": ensure_postgresql,
        "jdk": ensure_compiler,
        "faketime": ensure_faketime,
        "dns": ensure_dns_servers,
    }
    if unknown := [name for name in sys.argv[1:] if name not in parts]:
        raise SystemExit(f"setup installs {' and '.join(parts)} beside its usual steps, not {', '.join(unknown)}")
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            parts[name]()
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
    """Return the path of the Java program: under JAVA_HOME if this is set, else `java` on PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def find_compiler() -> str | None:
    """Return the path of a Java compiler, under JAVA_HOME, else on PATH; None without one that is new enough.

    JAVA_HOME may be a runtime without a compiler.
    """
    home = os.environ.get("JAVA_HOME")
    for program in ([f"{home}/bin/javac"] if home else []) + ["javac"]:
        if (_major_version(program) or 0) >= OLDEST_JAVA:
            return program
    return None


def java_version() -> int | None:
    """Return Java's major version; None without Java."""
    return _major_version(find_java())


def _major_version(program: str) -> int | None:
    """Return the major version that `java` or `javac` prints; None if it does not run."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = re.search(r'(?:version "|javac )(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match else None


def ensure_java() -> None:
    """Install Java if it is absent or too old and this process can run apt-get as root.

    Raises:
        SystemExit: Java is absent or too old, and cannot be installed.
    """
    version = java_version()
    suitable = version is not None and version >= OLDEST_JAVA
    _step("java", suitable, "installing openjdk-17-jre-headless")
    if suitable:
        return
    if not _may_apt_install():
        raise SystemExit(
            f"Java {OLDEST_JAVA} or newer is needed, installed is {version or 'none'}; install openjdk-17-jre-headless"
            " or another Java runtime, then run `make setup` again"
        )
    _apt_install("openjdk-17-jre-headless")
    if (java_version() or 0) < OLDEST_JAVA:
        raise SystemExit(
            f"Java was installed, but {find_java()} is not {OLDEST_JAVA} or newer; unset or correct JAVA_HOME"
        )


def postgresql_programs() -> Path | None:
    """Return the program folder of the newest PostgreSQL server in Debian's layout; None without a server."""
    folders = [program.parent for program in POSTGRESQL.glob("*/bin/initdb") if (program.parent / "postgres").exists()]
    return max(folders, key=lambda folder: float(folder.parent.name), default=None)


def ensure_postgresql() -> None:
    """Install a PostgreSQL server if this process can run apt-get as root, else print what is missing; start none."""
    if os.environ.get("SWITCHBACK_TEST_POSTGRES"):
        _step("postgresql", False, "the server of SWITCHBACK_TEST_POSTGRES is used")
        return
    if postgresql_programs() is not None:
        _step("postgresql", True, "")
        return
    if _may_apt_install():
        _step("postgresql", False, "installing postgresql, without a cluster")
        # apt-get prints the error.
        with suppress(subprocess.CalledProcessError):
            _install_without_cluster()
    if postgresql_programs() is None:
        _step("postgresql", False, f"{NO_POSTGRESQL}; tests on it are skipped")


def ensure_compiler() -> None:
    """Install a Java compiler if this process can run apt-get as root, else print what is missing."""
    if find_compiler() is not None:
        _step("jdk", True, "")
        return
    if _may_apt_install():
        _step("jdk", False, "installing openjdk-17-jdk-headless")
        # apt-get prints the error.
        with suppress(subprocess.CalledProcessError):
            _apt_install("openjdk-17-jdk-headless")
    if find_compiler() is None:
        _step("jdk", False, f"{NO_COMPILER}; tests that compile are skipped")


def faketime_library() -> Path | None:
    """Return libfaketime, which a process preloads to have a clock of its own; None where it is not installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def ensure_faketime() -> None:
    """Install libfaketime if this process can run apt-get as root, else print what is missing."""
    if faketime_library() is None and _may_apt_install():
        _step("faketime", False, "installing faketime")
        # apt-get prints the error.
        with suppress(subprocess.CalledProcessError):
            _apt_install("faketime")
    found = faketime_library() is not None
    _step("faketime", found, "libfaketime is not installed here (Debian's package faketime); tests on it are skipped")


def dns_programs() -> bool:
    """Whether Knot with its tools and the resolver Unbound are installed in Debian's layout."""
    programs = ("sbin/knotd", "sbin/knotc", "bin/knsupdate", "sbin/unbound")
    return all(Path("/usr", program).exists() for program in programs)


def ensure_dns_servers() -> None:
    """Install Knot and Unbound if this process can run apt-get as root, else print what is missing; start neither."""
    if not dns_programs() and _may_apt_install():
        _step("dns", False, "installing knot, knot-dnsutils and unbound, without their services")
        # apt-get prints the error.
        with suppress(subprocess.CalledProcessError), _services_left_alone():
            _apt_install("knot", "knot-dnsutils", "unbound")
    _step("dns", dns_programs(), "Debian's packages knot and unbound are not installed; tests on them are skipped")


@contextmanager
def _services_left_alone() -> Iterator[None]:
    """Inside this context, no package that is installed starts its service, unless this machine has its own policy."""
    if SERVICE_POLICY.exists():
        yield
        return
    SERVICE_POLICY.write_text("#!/bin/sh\nexit 101\n")
    SERVICE_POLICY.chmod(0o755)
    try:
        yield
    finally:
        SERVICE_POLICY.unlink()


def _install_without_cluster() -> None:
    """Install PostgreSQL without Debian's default cluster, whose server would start now and at every boot."""
    created_folders = [
        folder for folder in (CREATE_CLUSTER.parent, *CREATE_CLUSTER.parent.parents) if not folder.exists()
    ]
    CREATE_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
    CREATE_CLUSTER.write_text("create_main_cluster = false\n")
    try:
        _apt_install("postgresql")
    finally:
        CREATE_CLUSTER.unlink()
        for folder in created_folders:
            if not any(folder.iterdir()):
                folder.rmdir()


def _may_apt_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _apt_install(*packages: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(command, check=True, env=environment)


def ensure_packages() -> None:
    """Install exactly the packages of the lock files into .venv, unless this was done for the same lock files.

    The lock files' digest, which is written last, shows this.
    """
    digest = hashlib.sha256(BUILD_LOCK.read_bytes() + LOCK.read_bytes()).hexdigest()
    done = STAMP.exists() and STAMP.read_text().strip() == digest and (VENV / "bin" / "python").exists()
    _step("packages", done, "installing from requirements.lock into .venv, one to two minutes")
    if done:
        return
    for outdated in (STAMP, FAST_SPARK):
        outdated.unlink(missing_ok=True)
    if not _python_works():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    start = time.monotonic()
    python = str(VENV / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    _install([*pip, "-r", str(BUILD_LOCK)], {})
    # PySpark is a source archive only; it is built with the tools just installed, whose hashes pip has checked.
    # The system's certificates, as for pip: a proxy that inspects TLS has its own certificate.
    uv = [str(VENV / "bin" / "uv"), "--system-certs", "pip", "install", "--python", python]
    uv += ["--require-hashes", "--no-build-isolation"]
    _install([*uv, "-r", str(LOCK)], _index_of_pip(python))
    _compile_packages()
    STAMP.write_text(digest)
    print(f"packages: installed in {time.monotonic() - start:.0f} s", flush=True)


def _install(command: list[str], settings: dict[str, str]) -> None:
    if subprocess.run(command, cwd=PROJECT, env=os.environ | settings, check=False).returncode:
        raise SystemExit(
            f"packages: {command[-1]} could not be installed; remove the cause that is printed above, then run"
            " `make setup` again"
        )


def _index_of_pip(python: str) -> dict[str, str]:
    """Return pip's configured package index as uv's environment variable, because uv does not read pip's settings.

    {} if pip has no such setting, or uv has its own.
    """
    command = [python, "-m", "pip", "config", "get", "global.index-url"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    index = os.environ.get("PIP_INDEX_URL") or (result.stdout.strip() if result.returncode == 0 else "")
    return {"UV_DEFAULT_INDEX": index} if index and "UV_DEFAULT_INDEX" not in os.environ else {}


def _compile_packages() -> None:
    """Compile all packages, because for a user who cannot write to .venv every start would compile them again."""
    command = [str(VENV / "bin" / "python"), "-m", "compileall", "-q", "-j", "0", str(VENV / "lib")]
    # Some packages have templates that are not valid Python; errors on these templates are ignored.
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def ensure_fast_spark() -> None:
    """Run `lab.install.spark_warm_up` once, for fast starts of Spark."""
    done = FAST_SPARK.exists()
    _step("spark", done, "compiling Spark's classes once for all starts, 15 s")
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
