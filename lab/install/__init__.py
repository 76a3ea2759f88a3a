"""Set up a machine before the first start: Java, Python packages, jars, fast starts of Spark."""
