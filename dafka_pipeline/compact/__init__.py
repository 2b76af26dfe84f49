"""The job that keeps an archive's files few and large, and erases what must be forgotten."""
