"""The job that makes a table out of topics, and keeps it up to date."""
