"""What handlers share to answer: framing, limits and turns for large requests, caches for repeated ones."""
