"""The journal of a step, with which the live engine undoes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from sash.engine.atomic import Revertible
from sash.engine.live_aggregate import LiveAggregate
from sash.engine.window_assigner import ArenaAssigner
from sash.kernels.loops.array_types import Ints
from sash.kernels.loops.live_loops import BACK, FRONT
from sash.kernels.loops.slot_loops import DUE

if TYPE_CHECKING:
    from sash.engine.live_engine import LiveEngine


class SavedPanes(NamedTuple):
    """The states of slots' last panes, which a step may extend."""

    aggregate: LiveAggregate
    slots: Ints
    states: list[NDArray[Any]]


@dataclass
class StepJournal:
    """The saved state of the slots that a step changes."""

    slots: Ints
    saved: dict[Any, NDArray[Any]]
    fresh: Ints
    blocks: list[Ints] | None = None
    """The blocks of these slots' rings when the rollback began, by arena."""
    panes: list[SavedPanes] = field(default_factory=list)
    marks: list[tuple[Revertible, Any]] = field(default_factory=list)
    """Logs and dictionaries, each with its mark for `rollback`."""
    dense: list[LiveAggregate] = field(default_factory=list)
    """The aggregates that have seen a value in every row."""

    @staticmethod
    def open(engine: LiveEngine, slots: Ints, fresh: Ints) -> StepJournal:
        """Open the journal of a step that changes these slots; `fresh` are those of new keys."""
        found = StepJournal(slots, engine.table.save(slots), fresh)
        for assigner in engine.pane_assigners:
            heads = assigner.arena.heads
            some = slots[heads[slots, BACK] > heads[slots, FRONT]]
            places = assigner.located(some, heads[some, BACK] - 1)
            for aggregate in engine.aggregates_of(assigner):
                found.panes.append(SavedPanes(aggregate, some, [leaf[places] for leaf in aggregate.states]))
        for aggregate in engine.coded:
            found.marks += [(one, one.mark()) for one in aggregate.dictionaries.values()]
            aggregate.begin_step()
        if engine.ahead is not None:
            waiting = engine.ahead.waiting
            waiting.settle()
            found.marks.append((waiting.log, waiting.log.mark()))
        found.dense = [aggregate for aggregate in engine.all_aggregates if aggregate.dense]
        return found

    def undo(self, engine: LiveEngine) -> None:
        """Undo the step. May be interrupted, and called again."""
        if self.blocks is None:
            self.blocks = [a.arena.blocks(self.slots) for a in engine.arena_assigners]
        engine.retain_slots()
        for aggregate in engine.all_aggregates:
            aggregate.recode_saved(self.saved, [states for owner, _, states in self.panes if owner is aggregate])
        engine.table.restore(self.slots, self.saved)
        for assigner, block in zip(engine.arena_assigners, self.blocks, strict=True):
            assigner.arena.restore_blocks(self.slots, block)  # a ring that has moved stays where it is
            assigner.arena.reset(self.slots)
        for aggregate, slots, states in self.panes:
            assert isinstance(aggregate.assigner, ArenaAssigner)
            heads = aggregate.assigner.arena.heads
            places = aggregate.assigner.located(slots, heads[slots, BACK] - 1)
            aggregate.restore_states(places, states)
        for dictionary, mark in self.marks:
            dictionary.rollback(mark)
        if engine.ahead is not None:
            engine.ahead.waiting.undo()
        for aggregate in engine.all_aggregates:
            aggregate.rollback(dense=aggregate in self.dense)
        engine.timers.lowered(self.slots, engine.table["stamps"][self.slots, DUE])
