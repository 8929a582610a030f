"""Tool servers as olliesrv sees them: a process to start, find again and end, and a 9P server to ask."""
