"""The journal of procedures and the leases, in an SQL database."""
