"""Where executors write exported records, and in which form."""
