"""How clients log in to the lab's clusters: by password, token or certificate; and the issuer of the tokens."""
