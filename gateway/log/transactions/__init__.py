"""The transactions of a partition: those that are open, and what became of those that ended."""
