"""Jars, kept per user outside the checkout, resolved by PySpark's Ivy and checked against a manifest.

Standard library only: set-up runs this before anything else is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LAB = PROJECT / "lab"
INSTALL = LAB / "install"
MANIFEST = INSTALL / "jars.sha256"


def cache_folder() -> Path:
    """Where everything lives that outlasts a lab and a checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "switchback"


def jars_folder() -> Path:
    """The folder of this checkout's jars; its name changes with the list in ``ivy.xml``."""
    digest = hashlib.sha256((INSTALL / "ivy.xml").read_bytes()).hexdigest()[:12]
    return cache_folder() / f"jars-{digest}"


def ivy_cache() -> Path:
    """Ivy's own cache, kept away from ``~/.ivy2``."""
    return cache_folder() / "ivy"


def jar_digests() -> dict[str, str]:
    """Relative path of each jar -> SHA-256 it must have."""
    pairs = (line.split(maxsplit=1) for line in MANIFEST.read_text().splitlines() if line.strip())
    return {name.strip(): digest for digest, name in pairs}


def wrong_jars(folder: Path) -> list[str]:
    """Names of jars that are missing, changed, or not on the list."""
    wanted = jar_digests()
    present = {str(path.relative_to(folder)): path for path in sorted(folder.glob("*/*.jar"))}
    changed = [name for name in wanted if name not in present or _sha256(present[name]) != wanted[name]]
    return changed + [name for name in present if name not in wanted]


def ready_jars() -> Path | None:
    """The jars' folder, when every jar on the list is in it."""
    folder = jars_folder()
    return folder if all((folder / name).exists() for name in jar_digests()) else None


def ensure_jars(ivy_jar: Path, java: str = "java") -> Path:
    """Bring the jars here if they are not, and check each; harmless when repeated or cut short.

    Raises:
        SystemExit: they cannot be had, or Maven Central serves something else than the manifest lists.
    """
    folder = jars_folder()
    if folder.exists():
        wrong = wrong_jars(folder)
        if not wrong:
            return folder
        print(f"jars: missing or changed, fetched again: {', '.join(wrong[:5])}" + (" ..." if len(wrong) > 5 else ""))
        shutil.rmtree(folder)
    _fetch(folder, ivy_jar, java)
    return folder


def _fetch(folder: Path, ivy_jar: Path, java: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    # In an image it is root who makes the folder, and another user who reads it.
    aside.chmod(0o755)
    try:
        _run_ivy(aside, ivy_jar, java)
        wrong = wrong_jars(aside)
        if wrong:
            shutil.rmtree(ivy_cache(), ignore_errors=True)
            raise SystemExit(f"jars: not what {MANIFEST.relative_to(PROJECT)} lists: {', '.join(wrong)}")
        _settle(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _settle(aside: Path, folder: Path) -> None:
    try:
        aside.rename(folder)
    except OSError:
        # Another checkout of the same user was faster: what it left passed the same check.
        if not folder.exists():
            raise


def _run_ivy(target: Path, ivy_jar: Path, java: str) -> None:
    command = [
        java, "-Xmx512m", "-jar", str(ivy_jar),
        "-settings", str(INSTALL / "ivysettings.xml"), "-ivy", str(INSTALL / "ivy.xml"),
        "-cache", str(ivy_cache()), "-types", "jar", "bundle",
        "-retrieve", f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    seen: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        for line in ivy.stdout or []:
            seen.append(line.rstrip())
            _show_progress(seen)
    if ivy.returncode != 0:
        print("\n".join(seen[-30:]), file=sys.stderr)
        raise SystemExit(
            "jars: Ivy could not fetch them from Maven Central; run `make setup` again when it is reachable"
        )


def _show_progress(seen: list[str]) -> None:
    """One line for every ten modules found, then for every ten jars fetched."""
    for word, what in (("found ", "modules found"), ("[SUCCESSFUL ]", "jars fetched")):
        count = sum(word in line for line in seen)
        if word in seen[-1] and count % 10 == 0:
            print(f"jars: {count} of {len(jar_digests())} {what}", flush=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
