"""The scenarios for Python clients, over an adapter that each brings. Needs the standard library alone."""
