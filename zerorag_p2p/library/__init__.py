"""The documents of an owner: SQLite, vectors, loaders."""
