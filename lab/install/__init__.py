"""Set-up before the first start: Java, Python packages, jars."""
