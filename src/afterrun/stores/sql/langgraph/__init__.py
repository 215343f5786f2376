"""LangGraph's checkpointers as stores: threads as run trees, superseded checkpoints as generations.

A thread has no row of its own, and no table tells its state: `profiles.langgraph` tells it from fetched
columns. What to fetch differs between the engine's two savers (`saver.py`); all else is the same.
"""
