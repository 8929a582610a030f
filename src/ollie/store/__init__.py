"""What must survive: one interface, and the stores behind it."""
