"""The way of a run store from one schema to the next: revisions, run by Alembic.

A revision that was released changes no more. `afterrun.runs.schema` is where they lead.
"""
