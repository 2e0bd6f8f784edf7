"""Reading documents from files, a module a format."""
