"""Prometheus, its rules and the dashboard, on what a mesh really serves."""
