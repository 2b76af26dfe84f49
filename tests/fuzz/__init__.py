"""Malformed bytes for all that reads what nobody has vouched for: see `python -m tests.fuzz --help`."""
