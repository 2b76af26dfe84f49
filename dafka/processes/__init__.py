"""What each process starts, and in which order: a module for each command that starts one.

`standalone`, `gateway`, `store` and `tower` each begin with their order. The first two have the `life` of a
gateway in common; `rebuild_catalog` is a gateway that ends before it serves. The other modules are what they
share: signals, health, metrics, the interpreter, and what is said when it is ready.
"""
