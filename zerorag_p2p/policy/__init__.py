"""Who may see what. No input or output."""
