"""The way of a run store from one schema to the next: an Alembic environment, and its revisions.

A revision that was released changes no more. `afterrun.runs.schema` is where they lead.
"""
