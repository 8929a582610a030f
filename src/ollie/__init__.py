"""Ollie: an AI agent runtime whose interface is a file system served over 9P."""
