"""A peer on a real network: connections, sessions, timers, files."""
