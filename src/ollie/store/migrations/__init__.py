"""How a database of an earlier Ollie becomes one of this."""
