"""Steps of an unplanned failover: none of them needs a source that answers."""
