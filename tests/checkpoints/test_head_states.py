"""What a head has left to do, by the names of the channels that hold a value."""

from __future__ import annotations

import pytest

from afterrun.profiles.langgraph import State, head_state, outline
from checkpoints.packing import NO_NAMES, checkpoint, pack


def _state(*writes: str, **parts: object) -> State:
    return head_state(outline(pack(checkpoint(**parts))), writes).state


def test_a_head_without_work_is_done() -> None:
    """No channel that runs a node holds a value, and nothing was written."""
    assert _state() is State.DONE
    assert _state(channel_values={}) is State.DONE


@pytest.mark.parametrize(
    "values",
    [
        {"branch:to:answer": None},
        {"__start__": {"said": []}},
        {"__pregel_tasks": [1]},
        {"join:left+right:meet": ["left"]},
        {"branch:agent:should_continue:tools": None},
        {"start:agent": None},
    ],
)
def test_a_channel_that_runs_a_node_is_work(values: dict[str, object]) -> None:
    """An edge, an input, a task, a join: each is told by its name."""
    assert _state(channel_values=values) is State.PENDING


@pytest.mark.parametrize(
    "values",
    [
        {"__pregel_tasks": []},
        {"join:left+right:meet": NO_NAMES},
        {"join:left+right:meet": [NO_NAMES, False]},
        {"branches": 1, "joined": 2, "starts": 3},
    ],
)
def test_an_empty_one_is_none(values: dict[str, object]) -> None:
    """An empty list of tasks, a join at which nobody arrived, and a user's own names are no work."""
    assert _state(channel_values=values) is State.DONE


@pytest.mark.parametrize(
    "channel", ["__interrupt__", "__error__", "__scheduled__", "__resume__", "said", "__no_writes__"]
)
def test_anything_that_was_written_to_the_head_is_work(channel: str) -> None:
    """Writes wait to be taken in, whatever else the head says, and even if it cannot be read."""
    assert _state(channel) is State.PENDING
    assert head_state(None, [channel]).state is State.PENDING


@pytest.mark.parametrize("version", [0, 5, 99, None, "4"])
def test_a_format_that_was_never_read_is_unreadable(version: object) -> None:
    """A newer engine may write something else, so nothing is guessed."""
    assert _state(v=version) is State.UNREADABLE


def test_a_graph_without_edges_is_unreadable() -> None:
    """Where channels are not named for what they do, nothing tells what is to run."""
    assert _state(channel_versions={"a": "1.0", "b": "2.0"}) is State.UNREADABLE


def test_old_formats_name_an_edge_for_its_node() -> None:
    """Before version 4, a channel of a node's name runs what comes after it."""
    seen = {"agent": {"start:agent": "2.0"}, "__input__": {}}
    versions = {"__start__": "1.0", "agent": "3.0"}
    pending = {"channel_values": {"agent": "agent"}, "versions_seen": seen, "channel_versions": versions}
    assert _state(v=3, **pending) is State.PENDING
    assert _state(v=3, **{**pending, "channel_values": {"said": []}}) is State.DONE


def test_old_formats_compare_what_a_node_has_seen() -> None:
    """Before version 4, a channel that a node knows and has not run for at its version is work."""
    parts = {
        "channel_values": {"topic": 1},
        "versions_seen": {"agent": {"topic": "2.0"}},
        "channel_versions": {"__start__": "1.0", "topic": "3.0"},
    }
    assert _state(v=2, **parts) is State.PENDING
    assert _state(v=2, **{**parts, "versions_seen": {"agent": {"topic": "3.0"}}}) is State.DONE
