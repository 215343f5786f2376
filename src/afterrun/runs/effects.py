"""Effects: what a step does outside of the store, once, or known to be in doubt.

An effect is proposed, begun, and applied with a receipt; each is committed before the next thing happens.
What was begun and has no receipt may have happened: only somebody who knows can tell, and until then it is
ambiguous and is not begun again.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import sqlalchemy as sa

from afterrun.runs import contents, effect_rows
from afterrun.runs.access import hold, hold_as_owner
from afterrun.runs.contents import Display
from afterrun.runs.creation import MAX_KEY
from afterrun.runs.database import Database
from afterrun.runs.effect_rows import ORDER, Effect, effect_of, effects_of, expect
from afterrun.runs.errors import FingerprintMismatch
from afterrun.runs.labels import label
from afterrun.runs.lifecycle import wake
from afterrun.runs.lineage import refuse, step_block
from afterrun.runs.parts import at, exact, page_of, shown
from afterrun.runs.scrub import scrub
from afterrun.runs.side_tables import effects, receipts
from afterrun.runs.views import Attempt
from afterrun.runs.words import LIVE, PAGE, EffectStatus

KEY_LETTERS: Final = 32
"""Hexadecimal digits of a key that the store makes."""


class Effects:
    """Keeps what became of effects. Raises as `Steps` does."""

    def __init__(self, database: Database) -> None:
        """Work on a store."""
        self._database = database

    def propose(
        self,
        attempt: Attempt,
        name: str,
        *,
        key: str | None = None,
        request: bytes | None = None,
        begin: bool = False,
        epoch: int | None = None,
    ) -> Effect:
        """Say what the current attempt at a step is about to do outside, and return where that stands.

        A ``key`` that the run has proposed before gives that effect: adopt the receipt of an applied one.
        Without a key it is made of run, generation, step and name, so that a retry of the step has the same
        one. An effect that an earlier attempt or owner began becomes ambiguous. With ``begin``, one that is
        pending is begun at once. Raises `FingerprintMismatch` for another name or request under the key.
        """
        chosen = _derived(attempt, name) if key is None else label("key of an effect", key, longest=MAX_KEY)
        with self._database.writing() as transaction:
            run = hold_as_owner(transaction, attempt.run, epoch)
            refuse(step_block(transaction, attempt))
            content = contents.store(transaction, request)
            row = effect_rows.known(transaction, attempt, chosen)
            if row is None:
                row = effect_rows.insert(transaction, run, attempt, name=name, key=chosen, request=content)
            else:
                _refuse_other(row, name=name, request=content)
                row = effect_rows.propose_again(transaction, run, row, attempt, epoch)
            if begin and row.status == EffectStatus.PENDING:
                row = effect_rows.begin(transaction, row, epoch)
            return effect_of(row)

    def begin(self, effect: Effect, *, epoch: int | None = None) -> Effect:
        """Note that a pending effect is about to happen: once this returns, do it, and not before."""
        with self._database.writing() as transaction:
            hold_as_owner(transaction, effect.run, epoch)
            row = effect_rows.look(transaction, effect.place)
            expect(row, [EffectStatus.PENDING], "be begun")
            refuse(step_block(transaction, effect_rows.attempt_of(row)))
            return effect_of(effect_rows.begin(transaction, row, epoch))

    def apply(self, effect: Effect, *, receipt: bytes | None = None, epoch: int | None = None) -> Effect:
        """Note that a begun effect happened, with what the outside answered. Only who began it can."""
        with self._database.writing() as transaction:
            run = hold_as_owner(transaction, effect.run, epoch)
            row = effect_rows.look(transaction, effect.place)
            effect_rows.expect_begun(row, epoch, "be applied")
            return effect_of(effect_rows.apply(transaction, run, row, receipt))

    def fail(self, effect: Effect, *, reason: str, again: bool = True, epoch: int | None = None) -> Effect:
        """Note that an effect did not happen, which must be known: it is pending again, or given up.

        Where that is not known, leave it, or call `doubt`. One that is pending can be given up, too.
        """
        with self._database.writing() as transaction:
            run = hold_as_owner(transaction, effect.run, epoch)
            row = effect_rows.look(transaction, effect.place)
            if row.status != EffectStatus.PENDING:
                effect_rows.expect_begun(row, epoch, "fail")
            return effect_of(effect_rows.undone(transaction, run, row, again=again, reason=scrub(reason)))

    def doubt(self, target: str | Effect, *, epoch: int | None = None) -> list[Effect]:
        """Say of effects that were begun that nobody knows whether they happened; return these.

        Of a run: those that an owner before this one began. Its next owner calls it first. A single effect:
        whoever began it, as when the outside did not answer.
        """
        run = target if isinstance(target, str) else target.run
        with self._database.writing() as transaction:
            hold_as_owner(transaction, run, epoch)
            begun = sa.and_(effects.c.run_id == run, effects.c.status == EffectStatus.APPLYING)
            if not isinstance(target, str):
                begun = sa.and_(begun, at(effects, target.place))
            elif epoch is not None:
                begun = sa.and_(begun, effects.c.epoch.is_distinct_from(epoch))
            rows = transaction.rows(sa.select(effects).where(begun).order_by(*ORDER))
            return [
                effect_of(effect_rows.change(transaction, row, status=EffectStatus.AMBIGUOUS)) for row in rows
            ]

    def settle(self, effect: Effect, *, applied: bool, by: str, receipt: bytes | None = None) -> Effect:
        """Tell what became of an ambiguous effect: somebody looked outside. Wakes the run if it waits.

        One that did not happen is pending again while its generation goes on, and else given up.
        """
        with self._database.writing() as transaction:
            run = hold(transaction, effect.run)
            row = effect_rows.look(transaction, effect.place)
            expect(row, [EffectStatus.AMBIGUOUS], "be settled")
            row = effect_rows.change(transaction, row, settled_by=label("name of who settles an effect", by))
            if applied:
                row = effect_rows.apply(transaction, run, row, receipt)
            else:
                again = run.status in LIVE and run.generation == row.generation
                row = effect_rows.undone(transaction, run, row, again=again, reason=None)
            wake(transaction, run)
            return effect_of(row)

    def get(self, run: str, generation: int, number: int) -> Effect:
        """Return one effect. Raises `NotFound`."""
        with self._database.reading() as transaction:
            return effect_of(effect_rows.look(transaction, (run, generation, number)))

    def of(self, run: str, *, after: tuple[int, int] | None = None, limit: int = PAGE) -> list[Effect]:
        """Return effects of a run by generation and number, those ``after`` one such place, as a page."""
        with self._database.reading() as transaction:
            return effects_of(page_of(transaction, effects, run, after=after, limit=limit))

    def unsettled(
        self, *, status: EffectStatus | None = EffectStatus.AMBIGUOUS, limit: int = PAGE
    ) -> list[Effect]:
        """Return the oldest effects that somebody has to settle; with ``status``, others that have no end."""
        wanted = sa.select(effects).where(effects.c.ended_at.is_(None))
        if status is not None:
            wanted = wanted.where(effects.c.status == EffectStatus(status))
        with self._database.reading() as transaction:
            return effects_of(transaction.rows(wanted.order_by(effects.c.opened_at, *ORDER).limit(limit)))

    def receipt_of(self, effect: Effect) -> bytes | None:
        """Return exactly what the outside answered. Raises `WrongState` unless the effect is applied."""
        with self._database.reading() as transaction:
            expect(effect_rows.look(transaction, effect.place), [EffectStatus.APPLIED], "have a receipt")
            return contents.load(transaction, _receipt(effect), run=effect.run, target=_named(effect))

    def receipt_display_of(self, effect: Effect) -> Display | None:
        """Return what may be shown of the receipt, if there is one; it needs no key."""
        with self._database.reading() as transaction:
            return contents.show(transaction, _receipt(effect), run=effect.run, target=_named(effect))

    def request_of(self, effect: Effect) -> bytes | None:
        """Return exactly what was proposed. Raises `NotFound` and `PayloadUnreadable`."""
        with self._database.reading() as transaction:
            effect_rows.look(transaction, effect.place)
            return exact(transaction, effects.c.request_id, effect.place, "request of effect")

    def request_display_of(self, effect: Effect) -> Display | None:
        """Return what may be shown of that, as to somebody who has to settle it; it needs no key."""
        with self._database.reading() as transaction:
            return shown(transaction, effects.c.request_id, effect.place, "request of effect")


def _derived(attempt: Attempt, name: str) -> str:
    """Return a key for the outside that tells nothing, and is the same at every attempt at the step."""
    place = f"{attempt.run}/{attempt.generation}/{attempt.step}/{name}"
    return hashlib.sha256(place.encode()).hexdigest()[:KEY_LETTERS]


def _receipt(effect: Effect) -> sa.ScalarSelect[int]:
    columns = sa.tuple_(receipts.c.run_id, receipts.c.generation, receipts.c.effect)
    mine = columns == sa.tuple_(*map(sa.literal, effect.place))
    return sa.select(receipts.c.content_id).where(mine).scalar_subquery()


def _named(effect: Effect) -> str:
    return f"receipt of effect {effect.number} of generation {effect.generation}"


def _refuse_other(row: sa.Row[Any], *, name: str, request: int | None) -> None:
    if (row.name, row.request_id) != (name, request):
        raise FingerprintMismatch(
            "this key of an effect belongs to another name or request of the run: nothing was proposed; an "
            "effect that is to happen besides needs a key of its own"
        )
