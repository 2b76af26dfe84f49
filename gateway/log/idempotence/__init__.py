"""Producers' states: which batch of whom comes next, and which were there already."""
