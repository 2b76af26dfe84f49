"""A user's PySpark function between topics, with state: at least once by Spark's sink, exactly once by an
outbox.
"""
