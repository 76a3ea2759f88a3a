"""Set up fast starts of Spark: bytecode in PySpark's archives, and an archive of Spark's Java classes.

A pip-installed PySpark passes its Python processes ``pyspark.zip`` without bytecode, which every driver and worker
compiles again (a second each); Java loads and checks some 9,000 classes (another second and a half).
Run as a module, this module prepares its own virtual environment.
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
    """Return environment variables for fast starts of spark-submit.

    Java ignores the class archive if the archive is of another Java version or class path.
    """
    # Half of a short Spark job's processor time is JIT optimisation of code that runs once: FLAGS turn this off.
    shared = [f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.exists() else []
    return {
        "SPARK_SUBMIT_OPTS": " ".join([*FLAGS, *shared]),
        "SPARK_LAUNCHER_OPTS": " ".join(FLAGS),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def add_bytecode(archive: Path) -> None:
    """Add the bytecode of every Python module in a zip file to this file, unless the file has bytecode already.

    The file is replaced atomically.
    """
    temporary = archive.with_suffix(".writing")
    with zipfile.ZipFile(archive) as original:
        if any(name.endswith(".pyc") for name in original.namelist()):
            return
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as extended:
            for entry in original.infolist():
                source = original.read(entry)
                extended.writestr(entry, source)
                if entry.filename.endswith(".py"):
                    code = compile(source, f"{archive}/{entry.filename}", "exec", dont_inherit=True)
                    extended.writestr(
                        f"{entry.filename}c", _code_to_hash_pyc(code, importlib.util.source_hash(source), checked=False)
                    )
    temporary.replace(archive)


def archive_classes() -> None:
    """Run a short Spark job and write the Java classes that it loads to ARCHIVE, for later starts.

    Raises:
        SystemExit: the job failed, or Java wrote no archive.
    """
    temporary = ARCHIVE.with_suffix(".writing")
    environment = (
        os.environ
        | spark_environment()
        | {"SPARK_SUBMIT_OPTS": " ".join([*FLAGS, f"-XX:ArchiveClassesAtExit={temporary}", "-Xlog:disable"])}
    )
    submit = [
        str(Path(sys.executable).parent / "spark-submit"),
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.enabled=false",
        str(INSTALL / "short_spark_job.py"),
    ]
    result = subprocess.run(submit, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0 or not temporary.exists():
        raise SystemExit(
            f"spark: a short job failed with {result.returncode}, or Java archived no classes; remove the cause, then"
            f" run `make setup` again: {result.stderr[-2000:]}"
        )
    temporary.replace(ARCHIVE)


def main() -> None:
    """Add bytecode to PySpark's zip files, and create the class archive of this virtual environment."""
    import pyspark  # noqa: PLC0415 (only here is the environment complete)

    for archive in sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")):
        add_bytecode(archive)
    archive_classes()


if __name__ == "__main__":
    main()
