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
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LAB = PROJECT / "lab"
INSTALL = LAB / "install"
MANIFEST = INSTALL / "jars.sha256"


def cache_folder() -> Path:
    """Return the folder for files that remain when a lab or a checkout is removed: `switchback` in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "switchback"


def jars_folder() -> Path:
    """Return the folder of this checkout's jars, which may not exist yet; its name depends on ``ivy.xml``."""
    digest = hashlib.sha256((INSTALL / "ivy.xml").read_bytes()).hexdigest()[:12]
    return cache_folder() / f"jars-{digest}"


def ivy_cache() -> Path:
    """Return the folder of Ivy's cache, separate from ``~/.ivy2``."""
    return cache_folder() / "ivy"


def jar_digests() -> dict[str, str]:
    """Return by relative path the SHA-256 that the manifest states for each jar."""
    pairs = (line.split(maxsplit=1) for line in MANIFEST.read_text().splitlines() if line.strip())
    return {name.strip(): digest for digest, name in pairs}


def wrong_jars(folder: Path) -> list[str]:
    """Return the relative paths of jars of a folder that are missing, changed, or not in the manifest."""
    expected = jar_digests()
    existing = {str(path.relative_to(folder)): path for path in sorted(folder.glob("*/*.jar"))}
    changed = [name for name in expected if name not in existing or _sha256(existing[name]) != expected[name]]
    return changed + [name for name in existing if name not in expected]


def ready_jars() -> Path | None:
    """Return the folder of the jars if it has all jars of the manifest, whatever their content, else None."""
    folder = jars_folder()
    return folder if all((folder / name).exists() for name in jar_digests()) else None


def ensure_jars(ivy_jar: Path, java: str = "java") -> Path:
    """Fetch the jars if absent, compare each with the manifest, and return the jars' folder.

    A call can be repeated, and can be interrupted at any moment.

    Raises:
        SystemExit: the jars cannot be fetched, or differ from the manifest.
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
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    # In an image root creates the folder, and another user reads it.
    temporary.chmod(0o755)
    try:
        _run_ivy(temporary, ivy_jar, java)
        wrong = wrong_jars(temporary)
        if wrong:
            shutil.rmtree(ivy_cache(), ignore_errors=True)
            raise SystemExit(
                f"jars: these fetched jars differ from {MANIFEST.relative_to(PROJECT)}: {', '.join(wrong)}; find out"
                " which mirror or proxy delivers these jars, then run `make setup` again"
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


def _run_ivy(target: Path, ivy_jar: Path, java: str) -> None:
    command = [
        java, "-Xmx512m", "-jar", str(ivy_jar),
        "-settings", str(INSTALL / "ivysettings.xml"), "-ivy", str(INSTALL / "ivy.xml"),
        "-cache", str(ivy_cache()), "-types", "jar", "bundle",
        "-retrieve", f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        for line in ivy.stdout or []:
            lines.append(line.rstrip())
            _show_progress(lines)
    if ivy.returncode != 0:
        print("\n".join(lines[-30:]), file=sys.stderr)
        raise SystemExit(
            "jars: Ivy could not fetch jars from Maven Central; its last lines are printed above; run `make setup`"
            " again when Maven Central is reachable"
        )


def _show_progress(lines: list[str]) -> None:
    """Print a line for every ten modules found, then for every ten jars fetched."""
    for pattern, label in (("found ", "modules found"), ("[SUCCESSFUL ]", "jars fetched")):
        count = sum(pattern in line for line in lines)
        if pattern in lines[-1] and count % 10 == 0:
            print(f"jars: {count} of {len(jar_digests())} {label}", flush=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
