"""How clients log in to clusters, which principals that makes them, and what is weak about it."""
