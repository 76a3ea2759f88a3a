"""The source log and the target log of a partition, and the offset pairs that join both logs."""
