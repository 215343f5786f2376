"""Fixtures of the tests of backups."""

from backup.backup_kit import folder

__all__ = ["folder"]
