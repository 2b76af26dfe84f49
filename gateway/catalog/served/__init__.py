"""A catalog that one process of a machine owns, and that others use through a Unix socket."""
