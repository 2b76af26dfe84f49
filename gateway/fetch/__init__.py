"""Fetch: what is read for one request, and the sessions that spare clients to name all partitions again."""
