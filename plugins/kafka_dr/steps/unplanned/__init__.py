"""Steps of an unplanned failover: none of them needs the source."""
