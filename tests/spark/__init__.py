"""Spark's own connector, unmodified, against a real process."""
