"""The profile `production`: three brokers and a controller a site, TLS, two Connect workers a site, PostgreSQL."""
