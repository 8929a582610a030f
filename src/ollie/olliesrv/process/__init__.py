"""The process of the server itself and those around it: locks, secrets, children that were left to it, and `/proc`."""
