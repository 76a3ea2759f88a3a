"""Input and output files of the jobs, and their schemas."""
