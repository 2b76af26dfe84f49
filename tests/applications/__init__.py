"""What developers of applications use: servers for tests, the pytest plugin, faults, examples."""
