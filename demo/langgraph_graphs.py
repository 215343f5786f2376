"""Graphs whose threads end in every situation, run by `langgraph_app.py`."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

RAN: list[str] = []
"""Nodes in the order in which they ran, as far as a test asks for them."""

HEALED = {"yes": False}
"""Whether what fails at first works now."""

LARGE = 100_000
STEPS = 12
"""Steps of a thread whose list is gathered from all its checkpoints."""

Saver = Any
Graph = Any
Value = Any


class Talk(TypedDict, total=False):
    """What is said, and how often."""

    said: Annotated[list[str], operator.add]
    turns: int
    flag: bool


def _say(name: str) -> Callable[[Talk], Talk]:
    def node(state: Talk) -> Talk:
        RAN.append(name)
        return {"said": [f"{name} {len(state.get('said', []))}"], "turns": state.get("turns", 0) + 1}

    return node


def chat(saver: Saver) -> Graph:
    """Three nodes in a row."""
    graph = StateGraph(Talk)
    graph.add_sequence([(name, _say(name)) for name in ("hear", "think", "answer")])
    graph.add_edge(START, "hear")
    return graph.compile(checkpointer=saver)


def flagged(saver: Saver) -> Graph:
    """Hold a plain true value, as a snapshot's mark is."""
    graph = StateGraph(Talk)
    graph.add_sequence([("flag", lambda _: {"flag": True}), ("say", _say("say"))])
    graph.add_edge(START, "flag")
    return graph.compile(checkpointer=saver)


def waiting(saver: Saver) -> Graph:
    """Wait for an answer in the second node."""

    def ask(_: Talk) -> Talk:
        answer = interrupt("well?")
        RAN.append(f"ask {answer}")
        return {"said": [f"heard {answer}"]}

    graph = StateGraph(Talk)
    graph.add_sequence([("first", _say("first")), ("ask", ask), ("last", _say("last"))])
    graph.add_edge(START, "first")
    return graph.compile(checkpointer=saver)


def paused(saver: Saver) -> Graph:
    """Stop before a node, by configuration."""
    graph = StateGraph(Talk)
    graph.add_sequence([("first", _say("first")), ("second", _say("second"))])
    graph.add_edge(START, "first")
    return graph.compile(checkpointer=saver, interrupt_before=["second"])


def joined(saver: Saver) -> Graph:
    """Go two ways that meet again."""
    return _joined().compile(checkpointer=saver)


def joining(saver: Saver) -> Graph:
    """Stop before the node where two ways meet."""
    return _joined().compile(checkpointer=saver, interrupt_before=["meet"])


def _joined() -> Graph:
    graph = StateGraph(Talk)
    for name in ("left", "right", "meet"):
        graph.add_node(name, _way(name))
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    graph.add_edge(["left", "right"], "meet")
    return graph


def _way(name: str) -> Callable[[Talk], Talk]:
    def node(_: Talk) -> Talk:
        RAN.append(name)
        return {"said": [name]}

    return node


def failing(saver: Saver) -> Graph:
    """Fail in the second node until healed."""
    graph = StateGraph(Talk)
    graph.add_sequence([("first", _say("first")), ("second", _fragile("second"))])
    graph.add_edge(START, "first")
    return graph.compile(checkpointer=saver)


def fanning(saver: Saver) -> Graph:
    """Run three nodes side by side, one of which fails until healed."""
    graph = StateGraph(Talk)
    for name, node in {"one": _way("one"), "two": _fragile("two"), "three": _way("three")}.items():
        graph.add_node(name, node)
        graph.add_edge(START, name)
        graph.add_edge(name, "gather")
    graph.add_node("gather", _way("gather"))
    return graph.compile(checkpointer=saver)


def _fragile(name: str) -> Callable[[Talk], Talk]:
    def node(_: Talk) -> Talk:
        RAN.append(name)
        if not HEALED["yes"]:
            raise RuntimeError("not today")
        return {"said": [f"{name} after all"]}

    return node


def dying(saver: Saver) -> Graph:
    """End the whole process in the first node unless healed."""

    def die(_: Talk) -> Talk:
        if not HEALED["yes"]:
            os._exit(9)
        RAN.append("die")
        return {"said": ["alive"]}

    graph = StateGraph(Talk)
    graph.add_sequence([("die", die), ("last", _say("last"))])
    graph.add_edge(START, "die")
    return graph.compile(checkpointer=saver)


def sending(saver: Saver) -> Graph:
    """Send parts to a node, one task each."""
    return _sending().compile(checkpointer=saver)


def sent(saver: Saver) -> Graph:
    """Stop before the parts are worked on."""
    return _sending().compile(checkpointer=saver, interrupt_before=["part"])


def _sending() -> Graph:
    def part(state: Value) -> Talk:
        RAN.append(f"part {state['number']}")
        return {"said": [f"part {state['number']}"]}

    graph = StateGraph(Talk)
    graph.add_node("cut", _say("cut"))
    graph.add_node("part", part)
    graph.add_edge(START, "cut")
    graph.add_conditional_edges("cut", lambda _: [Send("part", {"number": n}) for n in range(3)], ["part"])
    return graph


def nested(saver: Saver) -> Graph:
    """Call a graph that calls a graph."""
    return _calling(_calling(_inner(), "middle").compile(), "outer").compile(checkpointer=saver)


def nested_waiting(saver: Saver) -> Graph:
    """Wait for an answer in a graph within a graph."""
    return _calling(_calling(_inner(asks=True), "middle").compile(), "outer").compile(checkpointer=saver)


def remembering(saver: Saver) -> Graph:
    """Call a graph that has a memory of its own, before and after other nodes."""
    return _calling(_inner(memory=True), "outer").compile(checkpointer=saver)


def _inner(*, asks: bool = False, memory: bool = False) -> Graph:
    def work(state: Talk) -> Talk:
        RAN.append("inner work")
        return {"said": [f"work {len(state.get('said', []))}"], "turns": state.get("turns", 0) + 1}

    def ask(_: Talk) -> Talk:
        answer = interrupt("within?") if asks else "nothing"
        RAN.append(f"inner ask {answer}")
        return {"said": [f"inner heard {answer}"]}

    graph = StateGraph(Talk)
    graph.add_sequence([("work", work), ("ask", ask)])
    graph.add_edge(START, "work")
    return graph.compile(checkpointer=True if memory else None)


def _calling(inner: Graph, name: str) -> Graph:
    graph = StateGraph(Talk)
    graph.add_sequence([(f"{name} first", _way(f"{name} first")), ("inner", inner), ("after", _way("after"))])
    graph.add_edge(START, f"{name} first")
    graph.add_edge("after", END)
    return graph


def _gather(state: list[int], writes: list[list[int]]) -> list[int]:
    return [*state, *(number for write in writes for number in write)]


class Gathered(TypedDict, total=False):
    """What many steps gathered, stored whole after every few."""

    numbers: Annotated[list[int], DeltaChannel(_gather, snapshot_frequency=5)]
    step: int


class GatheredAlways(TypedDict, total=False):
    """What many steps gathered, stored whole after each."""

    numbers: Annotated[list[int], DeltaChannel(_gather, snapshot_frequency=1)]
    step: int


def gathering(saver: Saver) -> Graph:
    """Gather a list from what each of many steps adds, without storing it whole each time."""
    return _gathering(Gathered).compile(checkpointer=saver)


def gathering_always(saver: Saver) -> Graph:
    """Gather as above, and store the list whole after every step."""
    return _gathering(GatheredAlways).compile(checkpointer=saver)


def _gathering(state: Value) -> Graph:
    graph = StateGraph(state)
    graph.add_node("add", lambda s: {"numbers": [s.get("step", 0)], "step": s.get("step", 0) + 1})
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda s: "add" if s["step"] < STEPS else END, ["add", END])
    return graph


def heavy(saver: Saver) -> Graph:
    """Carry a large state through a few steps."""
    graph = StateGraph(Talk)
    graph.add_sequence([("load", lambda _: {"said": ["x" * LARGE]}), ("say", _say("say"))])
    graph.add_edge(START, "load")
    return graph.compile(checkpointer=saver)


def functional(saver: Saver) -> Graph:
    """Count in an entrypoint, from what the last call saved."""

    @task
    def step(number: int) -> int:
        return number + 1

    @entrypoint(checkpointer=saver)
    def count(number: int, *, previous: Value = None) -> Value:
        return entrypoint.final(value=number, save=step(previous or 0).result())

    return count


GRAPHS: dict[str, Callable[[Saver], Graph]] = {
    made.__name__: made
    for made in (
        *(chat, flagged, waiting, paused, joined, joining, failing, fanning, dying, sending, sent),
        *(nested, nested_waiting, remembering, gathering, gathering_always, heavy, functional),
    )
}
