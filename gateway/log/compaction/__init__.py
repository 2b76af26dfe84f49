"""Compaction of closed segments: the newest record of each key stays."""
