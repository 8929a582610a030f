"""The agent's turn: pure values and functions, without I/O, clock or 9P."""
