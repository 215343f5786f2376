"""All that is SQLite's own: the dialect, the file and its space, and backups in files of their own."""
