"""What handlers share to answer: framed answers, limits and turns for large requests, what came up before."""
