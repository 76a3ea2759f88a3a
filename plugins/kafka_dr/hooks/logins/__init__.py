"""Which logins the installed Kafka clients can do, and the tokens that an issuer gives them."""
