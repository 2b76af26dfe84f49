"""A job as a process: how it stops, what it tells, what it measures."""
