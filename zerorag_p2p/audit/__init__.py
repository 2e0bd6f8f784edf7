"""The audit log: what was asked, answered and given, as a chain that shows every change to it."""
