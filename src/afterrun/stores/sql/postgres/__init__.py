"""All that is PostgreSQL's own: the dialect, its session, its checks, its backups and its space."""
