"""The keep-set on real stores, by plain SQL: what it lets go, the engine does not miss."""

from __future__ import annotations

import pytest

from afterrun.profiles.langgraph import Cut, State, head_state, outline

from .langgraph_cuts import apply, cuts, going
from .langgraph_fixtures import Untouched, _checkpoint_database, kind, made, untouched
from .langgraph_stores import DONE, GATHERING, PENDING, SqliteStore, Store, run_langgraph, threads

__all__ = ["_checkpoint_database", "kind", "made", "untouched"]

pytestmark = pytest.mark.engine


def test_the_kit_has_every_situation(made: Store, untouched: Untouched) -> None:
    """The threads that should be done have nothing next, all others do or hold writes."""
    assert threads(made) > DONE | PENDING
    waiting = {thread for thread, read in untouched.read.items() if read["state"]["next"]}
    assert waiting == PENDING - {"chat-scheduled"}
    spaces = untouched.read["nested-0"]["namespaces"]
    assert sum("|" in namespace for namespace in spaces) == 3
    assert set(untouched.read["remembering-0"]["namespaces"]) == {"", "inner"}
    assert untouched.proceeded["fanning-0"]["ran"] == ["gather", "two"]
    assert len([name for name in untouched.proceeded if name.startswith("waiting-forked")]) == 2


def test_heads_are_told_as_the_engine_tells_them(made: Store, untouched: Untouched) -> None:
    """A head is done exactly where the engine has nothing next, and nobody wrote to it."""
    if not isinstance(made, SqliteStore):
        pytest.skip("payloads of the other saver are read by the store itself")
    for thread, read in untouched.read.items():
        payload, written = _head(made, thread)
        assert (head_state(outline(payload), written).state is State.DONE) == (
            not read["state"]["next"] and not written
        )


def _head(store: Store, thread: str) -> tuple[bytes, list[str]]:
    where = f"thread_id = '{thread}' AND checkpoint_ns = ''"
    name, payload = store.rows(
        f"SELECT checkpoint_id, checkpoint FROM checkpoints WHERE {where} ORDER BY checkpoint_id DESC LIMIT 1"
    )[0]
    written = store.rows(f"SELECT channel FROM {store.writes} WHERE {where} AND checkpoint_id = '{name}'")
    return payload, [row[0] for row in written]


def test_the_engine_reads_and_goes_on_as_if_nothing_had_gone(made: Store, untouched: Untouched) -> None:
    """State, history from the oldest kept checkpoint, and whatever runs next are all identical."""
    found = cuts(made)
    assert len(going(found)) > 200
    apply(made, going(found))
    read = run_langgraph("read", made)
    for thread, before in untouched.read.items():
        assert read[thread] == remaining(before, found[thread])
    assert without_names(run_langgraph("proceed", made)) == without_names(untouched.proceeded)


def remaining(before: dict[str, object], cut: Cut) -> dict[str, object]:
    """Return what the engine should still read of a thread."""
    kept = {place.id for place in cut.kept}
    history: list[dict[str, object]] = before["history"]  # type: ignore[assignment]
    spaces: dict[str, list[str]] = before["namespaces"]  # type: ignore[assignment]
    left = {namespace: [name for name in names if name in kept] for namespace, names in spaces.items()}
    return {
        "state": before["state"],
        "history": [state for state in history if state["id"] in kept],
        "namespaces": {namespace: names for namespace, names in left.items() if names},
    }


def without_names(told: dict[str, object]) -> dict[str, object]:
    """Return what came of threads, with forks in the order of their ids."""
    return {name: told[name] for name in sorted(told)}


def test_delta_channels_stay_whole(made: Store) -> None:
    """Of a thread whose value is gathered from all its checkpoints, nothing may go."""
    found = cuts(made)
    for thread in GATHERING:
        assert not found[thread].going
        assert {stay.name for stay in found[thread].kept.values()} == {"delta-channel"}
