"""Turns: so many at a time, in order, and nobody is kept waiting at the end."""

from __future__ import annotations

import threading

import pytest

from afterrun.core.errors import Exit
from afterrun.watch import SEVERITY, Turns, worst

WAIT = 30.0


class Asker(threading.Thread):
    """Asks for a turn and holds it until it is told to give it back."""

    def __init__(self, turns: Turns, order: list[int], number: int) -> None:
        super().__init__(daemon=True)
        self._turns = turns
        self._order = order
        self.number = number
        self.answer: bool | None = None
        self.has = threading.Event()
        self.back = threading.Event()
        self.start()

    def run(self) -> None:
        self.answer = self._turns.take()
        if self.answer:
            self._order.append(self.number)
            self.has.set()
            assert self.back.wait(WAIT)
            self._turns.give()
        self.has.set()


@pytest.mark.parametrize("most", [1, 2, 3])
def test_so_many_at_a_time_and_first_come_first_served(most: int) -> None:
    """A turn that is given back goes to who has waited longest."""
    turns, order = Turns(most), list[int]()
    askers = []
    for number in range(6):
        askers.append(Asker(turns, order, number))
        if number < most:
            assert askers[-1].has.wait(WAIT)
        else:
            waiting = number - most + 1
            with turns._changed:
                assert turns._changed.wait_for(lambda: len(turns._queue) == waiting, WAIT)  # noqa: B023 - at once
    for number, asker in enumerate(askers):
        assert len(order) == min(number + most, 6)
        asker.back.set()
        asker.join(WAIT)
        if number + most < 6:
            assert askers[number + most].has.wait(WAIT)
    assert order == list(range(6))


def test_at_the_end_who_waits_is_sent_away() -> None:
    """And who comes later, too."""
    turns, order = Turns(1), list[int]()
    first = Asker(turns, order, 0)
    assert first.has.wait(WAIT)
    second = Asker(turns, order, 1)
    turns.close()
    assert second.has.wait(WAIT)
    assert (second.answer, turns.take()) == (False, False)
    first.back.set()
    first.join(WAIT)
    assert order == [0]


def test_every_exit_code_has_its_weight() -> None:
    """The worst of several is decided for all that a sweep can end with."""
    assert set(SEVERITY) == set(Exit) - {Exit.USAGE}
    assert worst([]) is Exit.DONE
    assert worst([Exit.DEFERRED, Exit.LOCKED, Exit.DONE]) is Exit.LOCKED
