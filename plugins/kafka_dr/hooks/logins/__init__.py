"""How clients log in to outside systems: which logins the Kafka clients can do, tokens of issuers, bearer tokens."""
