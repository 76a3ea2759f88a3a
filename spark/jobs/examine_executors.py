"""Look at what Spark's executors have: Python, packages, clock. Nothing is read from Kafka.

    spark-submit spark/jobs/examine_executors.py --input DIR --output DIR --logins FILE

Writes executors.json into the output folder, which it creates. The input folder has packages.json, a list of packages
that executors need beyond those of all jobs. If Spark fails, the file has the error in place of what was seen. Of the
logins, which are deleted once read, only settings of Spark are used. Exit code 0 if executors.json was written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kafka_dr_spark.contract.logins import take_logins
from kafka_dr_spark.contract.private_files import private_folder
from kafka_dr_spark.examination import examine_executors
from kafka_dr_spark.job import error_line
from kafka_dr_spark.session import spark_with_package


def main() -> int:
    """Run the job; return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for option in ("--input", "--output", "--logins"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--wait-for-input", help="accepted, as of all jobs; this one does not wait")
    wanted = parser.parse_args()
    try:
        more = tuple(json.loads((wanted.input / "packages.json").read_text(encoding="utf-8")))
        private = take_logins(wanted.logins).spark
        document = examine_executors(spark_with_package("examine_executors", private), more)
    except Exception as error:  # noqa: BLE001 (whatever it is, who asked has to see it)
        document = {"error": error_line(error)}
    (private_folder(wanted.output) / "executors.json").write_text(json.dumps(document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
