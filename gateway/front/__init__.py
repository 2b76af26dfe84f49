"""Sockets, connections and what becomes of a request until its handler has it, and of the answer after."""
