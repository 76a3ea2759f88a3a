"""How clients are led to a cluster: what a shared DNS name answers, and whether it can be redirected."""
