"""The protocol as pure state machines: events in, effects out. No sockets, disks, clocks or tasks in here."""
