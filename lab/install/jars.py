"""Fetch jars with PySpark's Ivy into a folder outside of the checkout, and compare them with a manifest.

Standard library only: set-up runs this module before packages are installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LAB = PROJECT / "lab"
INSTALL = LAB / "install"
MANIFEST = INSTALL / "jars.sha256"
#: Kafka versions other than the newest, which the lab fetches when a site is to run them.
OTHER_VERSIONS = INSTALL / "other_versions"


@dataclass(frozen=True)
class JarList:
    """Jars that are fetched together.

    Args:
        ivy: Ivy's file that names the modules.
        manifest: file with the SHA-256 of each jar.
        name: beginning of the name of the folder in the cache.
        kafka_version: value of `${kafka.version}` in Ivy's file; "" if the file does not use this value.
    """

    ivy: Path
    manifest: Path
    name: str
    kafka_version: str = ""


def default_list() -> JarList:
    """Return the list of the jars that every lab needs: the newest Kafka, and Spark's connector."""
    return JarList(INSTALL / "ivy.xml", MANIFEST, "jars")


def list_of_version(version: str) -> JarList:
    """Return the list of the jars of another Kafka version."""
    manifest = OTHER_VERSIONS / f"kafka-{version}.sha256"
    return JarList(OTHER_VERSIONS / "ivy.xml", manifest, f"kafka-{version}", version)


def cache_folder() -> Path:
    """Return the folder for files that remain when a lab or a checkout is removed: `switchback` in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "switchback"


def jars_folder(jars: JarList | None = None) -> Path:
    """Return the folder of these jars (None: of `default_list`), which may not exist yet.

    The folder's name depends on Ivy's file.
    """
    jars = jars or default_list()
    digest = hashlib.sha256(jars.ivy.read_bytes()).hexdigest()[:12]
    return cache_folder() / f"{jars.name}-{digest}"


def ivy_cache() -> Path:
    """Return the folder of Ivy's cache, separate from ``~/.ivy2``."""
    return cache_folder() / "ivy"


def jar_digests(jars: JarList | None = None) -> dict[str, str]:
    """Return by relative path the SHA-256 that the manifest states for each jar."""
    lines = (jars or default_list()).manifest.read_text().splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {name.strip(): digest for digest, name in pairs}


def wrong_jars(folder: Path, jars: JarList | None = None) -> list[str]:
    """Return the relative paths of jars of a folder that are missing, changed, or not in the manifest."""
    expected = jar_digests(jars)
    existing = {str(path.relative_to(folder)): path for path in sorted(folder.glob("*/*.jar"))}
    changed = [name for name in expected if name not in existing or _sha256(existing[name]) != expected[name]]
    return changed + [name for name in existing if name not in expected]


def ready_jars(jars: JarList | None = None) -> Path | None:
    """Return the folder of the jars if it has all jars of the manifest, whatever their content, else None."""
    folder = jars_folder(jars)
    return folder if all((folder / name).exists() for name in jar_digests(jars)) else None


def ensure_jars(ivy_jar: Path, java: str = "java", jars: JarList | None = None) -> Path:
    """Fetch the jars if absent, compare each with the manifest, and return the jars' folder.

    A call can be repeated, and can be interrupted at any moment.

    Raises:
        SystemExit: the jars cannot be fetched, or differ from the manifest.
    """
    jars = jars or default_list()
    folder = jars_folder(jars)
    if folder.exists():
        wrong = wrong_jars(folder, jars)
        if not wrong:
            return folder
        print(f"jars: missing or changed, fetched again: {', '.join(wrong[:5])}" + (" ..." if len(wrong) > 5 else ""))
        shutil.rmtree(folder)
    _fetch(jars, folder, ivy_jar, java)
    return folder


def _fetch(jars: JarList, folder: Path, ivy_jar: Path, java: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    # In an image root creates the folder, and another user reads it.
    temporary.chmod(0o755)
    try:
        _run_ivy(jars, temporary, ivy_jar, java)
        wrong = wrong_jars(temporary, jars)
        if wrong:
            shutil.rmtree(ivy_cache(), ignore_errors=True)
            raise SystemExit(
                f"jars: these fetched jars differ from {jars.manifest.relative_to(PROJECT)}: {', '.join(wrong)}; find"
                " out which mirror or proxy delivers these jars, then fetch the jars again"
            )
        _publish(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _publish(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        # Another checkout of the same user was faster; that checkout has compared the jars with the same manifest.
        if not folder.exists():
            raise


def _run_ivy(jars: JarList, target: Path, ivy_jar: Path, java: str) -> None:
    command = [
        java, "-Xmx512m", f"-Dkafka.version={jars.kafka_version}", "-jar", str(ivy_jar),
        "-settings", str(INSTALL / "ivysettings.xml"), "-ivy", str(jars.ivy),
        "-cache", str(ivy_cache()), "-types", "jar", "bundle",
        "-retrieve", f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        for line in ivy.stdout or []:
            lines.append(line.rstrip())
            _show_progress(jars, lines)
    if ivy.returncode != 0:
        print("\n".join(lines[-30:]), file=sys.stderr)
        raise SystemExit(
            "jars: Ivy could not fetch jars from Maven Central; its last lines are printed above; repeat the command"
            " when Maven Central is reachable"
        )


def _show_progress(jars: JarList, lines: list[str]) -> None:
    """Print a line for every ten modules found, then for every ten jars fetched."""
    for pattern, label in (("found ", "modules found"), ("[SUCCESSFUL ]", "jars fetched")):
        count = sum(pattern in line for line in lines)
        if pattern in lines[-1] and count % 10 == 0:
            print(f"jars: {count} of {len(jar_digests(jars))} {label}", flush=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
