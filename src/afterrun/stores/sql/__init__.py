"""Stores in SQL databases: one store class, and a dialect file for each database.

Nouns: *shapes* are the names of a real database's tables; a *binding* ties a profile to them; *facts* are
the statements that read units. Only a dialect file knows which database it is; dialects do not know each
other. All identifiers come from reflected schemas, always quoted; all values are bound.
"""
