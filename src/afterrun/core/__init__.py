"""The idea of afterrun, without a database: policy, facts, verdicts, plan, sweep.

Nouns: a *unit* is removed whole or not at all; its *facts* are what a store knows of it; the *judge* turns
facts, policy and one ``now`` into a *verdict* with every reason; a *plan* is policy, store and ``now``; a
*sweep* is one pass of bounded *batches* over a store.

This package imports the standard library alone. It does no I/O and reads no clock: stores, timers and
pauses are handed in.
"""
