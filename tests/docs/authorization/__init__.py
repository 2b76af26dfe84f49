"""Which rights the gateway asks for, found out by asking it: what docs/authorization.md is made from."""
