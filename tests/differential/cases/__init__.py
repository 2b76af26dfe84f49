"""One file of cases per API."""
