"""Faults from the outside: processes killed, disks that fail, hostile bytes; and what must still hold."""
