"""Stores that are directories: a folder a run, and files with results, that live processes keep writing.

Nouns: a *pattern* says where run folders and results lie; a *proposal* is a name that discovery found and the
validator has not admitted yet; *status* is what a run's file says; a *reference* is something elsewhere that
holds a run; a *tombstone* is a run that was renamed and waits for its removal; the *journal* says of each
tombstone what it was and what becomes of it.

Nothing follows a symbolic link. Whatever is opened is opened through the descriptor of its folder.
"""
