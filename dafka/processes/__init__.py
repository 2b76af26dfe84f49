"""What each process starts, and in which order: standalone, gateway, store, tower."""
