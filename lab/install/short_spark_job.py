"""A short job that uses Spark like the product's jobs; `spark_warm_up` archives the Java classes of this job."""

from __future__ import annotations

from pyspark import SparkContext

if __name__ == "__main__":
    lengths = SparkContext.getOrCreate().parallelize([b"a", b"bc"], 2).map(len).collect()
    if lengths != [1, 2]:
        raise SystemExit(f"Spark returned the lengths {lengths} instead of [1, 2]; run `make setup` again")
