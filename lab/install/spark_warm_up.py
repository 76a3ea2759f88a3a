"""Pay for a start of Spark once, at set-up: bytecode of PySpark's archives, Java's view of Spark's classes.

A pip-installed PySpark hands its Python processes ``pyspark.zip`` without bytecode, which every driver and every worker
compiles anew (a second each); Java loads and checks some 9,000 classes (another second and a half).
Run as a module it prepares the environment that it runs in.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc  # type: ignore[attr-defined]
from pathlib import Path

from lab.install.jars import INSTALL
from lab.install.java_flags import FLAGS

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"


def spark_environment() -> dict[str, str]:
    """Environment in which spark-submit starts fast; Java goes on without the archive where it does not fit."""
    # Half of Spark's processor time for a short job goes into optimising code that runs once: FLAGS leaves that out.
    shared = [f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.exists() else []
    return {
        "SPARK_SUBMIT_OPTS": " ".join([*FLAGS, *shared]),
        "SPARK_LAUNCHER_OPTS": " ".join(FLAGS),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def add_bytecode(archive: Path) -> None:
    """Add every module's bytecode to a zip file, unless present; the file is replaced as a whole."""
    aside = archive.with_suffix(".writing")
    with zipfile.ZipFile(archive) as old:
        if any(name.endswith(".pyc") for name in old.namelist()):
            return
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
            for entry in old.infolist():
                source = old.read(entry)
                new.writestr(entry, source)
                if entry.filename.endswith(".py"):
                    code = compile(source, f"{archive}/{entry.filename}", "exec", dont_inherit=True)
                    new.writestr(
                        f"{entry.filename}c", _code_to_hash_pyc(code, importlib.util.source_hash(source), checked=False)
                    )
    aside.replace(archive)


def archive_classes() -> None:
    """Run a short job whose Java classes are kept for later starts."""
    aside = ARCHIVE.with_suffix(".writing")
    environment = (
        os.environ
        | spark_environment()
        | {"SPARK_SUBMIT_OPTS": " ".join([*FLAGS, f"-XX:ArchiveClassesAtExit={aside}", "-Xlog:disable"])}
    )
    submit = [
        str(Path(sys.executable).parent / "spark-submit"),
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.enabled=false",
        str(INSTALL / "short_spark_job.py"),
    ]
    done = subprocess.run(submit, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not aside.exists():
        raise SystemExit(f"spark: a short job failed with {done.returncode}: {done.stderr[-2000:]}")
    aside.replace(ARCHIVE)


def main() -> None:
    """Prepare this environment."""
    import pyspark  # noqa: PLC0415 (only here is the environment complete)

    for archive in sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")):
        add_bytecode(archive)
    archive_classes()


if __name__ == "__main__":
    main()
