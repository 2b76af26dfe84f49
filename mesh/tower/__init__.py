"""The tower: introduces nodes to each other."""
