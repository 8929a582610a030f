"""Sessions and agents: who they are, how they are made, and what may be asked of them by whom."""
