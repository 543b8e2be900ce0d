"""Mutation tests: with one line of the package changed, the tests of this directory must fail.

    make mutants                        all of them
    make mutants ARGS="watermark"       those whose name contains a word; `--jobs 4` for more processes

A mutant is a copy of the package in which one line is changed so that a user sees it: in a result, a message, the
state, or a cost. Its processes compile nothing. First the tests run that are expected to notice (`noticed_by`, a
file or a test of this directory), then all of the directory. A mutant that survives is a gap in the tests; a line that
the module does not have exactly once has moved, and its successor must be named here.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "sash"
TESTS_FAILED = 1  # pytest's exit code; an error in collection or usage has another
LONGEST = 300
"""Seconds after which a run counts as noticed: the mutant does not end."""


@dataclass(frozen=True)
class Mutant:
    """A line of a module, without its indentation, what it becomes, and the tests that are expected to notice."""

    module: str
    line: str
    becomes: str
    noticed_by: str


MUTANTS = {
    "a lookup of a shifted Count window ends at the newest row": Mutant(
        "engine/keyed/lookup.py",
        "hi = np.clip(stops + ahead, rings.front, back)",
        "hi = stops",
        "test_definitions.py::test_lookups_of_windows_that_are_moved_by_rows",
    ),
    "a window of months is not moved by days": Mutant(
        "windows/rules.py",
        "return self.calendar_size.before(ends if self.calendar_shift is not None else later(x, self.shift)), ends",
        "return self.calendar_size.before(ends if self.calendar_shift is not None else x), ends",
        "test_definitions.py::test_windows_of_months_that_are_moved_by_days",
    ),
    "a row at the given watermark is late": Mutant(
        "columns/watermark.py",
        "late = timed & (time < watermark)",
        "late = timed & (time <= watermark)",
        "test_operator.py::test_in_every_mode_and_emission",
    ),
    "a row at the watermark is late": Mutant(
        "kernels/loops/slot_loops.py",
        "late[i] = t < watermark",
        "late[i] = t <= watermark",
        "test_hosts.py::test_late_untimed_and_in_time",
    ),
    "the watermark falls": Mutant(
        "kernels/loops/slot_loops.py",
        "if not has_watermark or reached > watermark:",
        "if True:",
        "test_hosts.py::test_late_untimed_and_in_time",
    ),
    "a call of one row raises the watermark too little": Mutant(
        "columns/watermark.py",
        "reached = at - self.lateness if at >= self.floor else self.least",
        "reached = at - self.lateness - 1 if at >= self.floor else self.least",
        "test_hosts.py::test_late_untimed_and_in_time",
    ),
    "a time at the limit of ahead= is untimed": Mutant(
        "columns/watermark.py",
        "timed = timed & (time <= self._latest())",
        "timed = timed & (time < self._latest())",
        "test_hosts.py::test_times_too_far_ahead_of_the_clock_are_untimed",
    ),
    "a row at the watermark leaves the reorder buffer, alone": Mutant(
        "engine/intake/reorder_buffer.py",
        "passes = everything or (until is not None and low < until)",
        "passes = everything or (until is not None and low <= until)",
        "test_hosts.py::test_late_untimed_and_in_time",
    ),
    "rows at the watermark leave the reorder buffer, in order": Mutant(
        "engine/intake/reorder_buffer.py",
        "cut = int(time.searchsorted(until))",
        'cut = int(time.searchsorted(until, "right"))',
        "test_definitions.py::test_rows_of_windows_on_operators",
    ),
    "rows at the watermark leave the reorder buffer, out of order": Mutant(
        "engine/intake/reorder_buffer.py",
        "below = time < until",
        "below = time <= until",
        "test_hosts.py::test_late_untimed_and_in_time",
    ),
    "a run of the reorder buffer stays": Mutant(
        "engine/intake/reorder_buffer.py",
        "if low >= until:",
        "if low + 1 >= until:",
        "test_definitions.py::test_rows_of_windows_on_operators",
    ),
    "merged runs are not in the order of their least times": Mutant(
        "engine/intake/reorder_buffer.py",
        "return tuple(sorted(chain.from_iterable(levels.values()), key=_LOW))",
        "return tuple(chain.from_iterable(levels.values()))",
        "test_hosts.py::test_rows_leave_in_the_order_of_time_further_columns_and_arrival",
    ),
    "rows of a failed call stay in the reorder buffer": Mutant(
        "engine/intake/reorder_buffer.py",
        "self._state = mark",
        "pass",
        "test_state.py::test_a_store_that_fails_in_any_operation",
    ),
    "tie-breakers do not order released rows": Mutant(
        "engine/intake/reorder_buffer.py",
        "return _sorted(rows, self.ties) if self.ties and len(rows.time) > 1 else rows",
        "return rows",
        "test_hosts.py::test_rows_of_equal_time_are_in_the_order_of_further_columns",
    ),
    "due is the time of a buffered row, which does not release it": Mutant(
        "columns/time_numbers.py",
        "return time + 1 if isinstance(time, int) else math.nextafter(time, math.inf)",
        "return time if isinstance(time, int) else math.nextafter(time, math.inf)",
        "test_state.py::test_when_something_is_due",
    ),
    "a Time window keeps the row at its open start": Mutant(
        "windows/rules.py",
        "return bound(-self.behind, self.numbers, self.closed_start)",
        "return bound(-self.behind, self.numbers, True)",
        "test_definitions.py::test_rows_of_windows_on_frames",
    ),
    "a value at an exclusive start is in the window": Mutant(
        "windows/rules.py",
        "return bool(value < start if inclusive else value <= start)",
        "return bool(value < start)",
        "test_definitions.py::test_rows_of_windows_on_times_that_are_floats",
    ),
    "an early time wraps around": Mutant(
        "windows/rules.py",
        "return least if t < floor else t + by",
        "return t + by",
        "test_hosts.py::test_limits_of_integers",
    ),
    "a session ends at its gap": Mutant(
        "windows/rules.py",
        "return found > np.asarray(gap).astype(found.dtype)",
        "return found >= np.asarray(gap).astype(found.dtype)",
        "test_definitions.py::test_rows_of_windows_on_frames",
    ),
    "an exclusive shifted bound is inclusive": Mutant(
        "windows/rules.py",
        "by = min(max(int(by) + (not inclusive), -LIMIT), LIMIT)",
        "by = min(max(int(by), -LIMIT), LIMIT)",
        "test_definitions.py::test_rows_of_windows_on_frames",
    ),
    "a live Count window has a row too few": Mutant(
        "kernels/loops/window_loops.py",
        "los[i] = max(his[i] - size, begin[i])",
        "los[i] = max(his[i] - size + 1, begin[i])",
        "test_definitions.py::test_rows_of_windows_on_operators",
    ),
    "a live Count window that is shifted ends a row early": Mutant(
        "kernels/loops/window_loops.py",
        "hi = min(max(pos[i] + 1 + ahead, begin[i]), stops[i])",
        "hi = min(max(pos[i] + ahead, begin[i]), stops[i])",
        "test_definitions.py::test_rows_of_windows_on_operators",
    ),
    "a mark does not end its window": Mutant(
        "kernels/loops/window_loops.py",
        "heads[s, CLOSED] = 1 if marks[i] else 0",
        "heads[s, CLOSED] = 0",
        "test_definitions.py::test_rows_of_windows_on_operators",
    ),
    "windows closed on both sides hold no peers": Mutant(
        "windows/specs.py",
        '**({"closed_end": lengths.closed in ("right", "both")} | bounds),',
        '**({"closed_end": lengths.closed == "right"} | bounds),',
        "test_definitions.py::test_rows_of_windows_on_operators",
    ),
    "a full window is not full": Mutant(
        "engine/keyed/row_assigner.py",
        "on = his - los >= rule.full if rule.full else all_true(len(slots))",
        "on = his - los > rule.full if rule.full else all_true(len(slots))",
        "test_hosts.py::test_windows_that_must_be_full",
    ),
    "a Count window that slides in time has a row too few": Mutant(
        "engine/keyed/row_assigner.py",
        "los = np.maximum(his - rule.rows[0], begin)",
        "los = np.maximum(his - rule.rows[0] + 1, begin)",
        "test_hosts.py::test_rows_and_totals_at_slides_in_time",
    ),
    "a Delta window may fall on streams": Mutant(
        "engine/keyed/row_assigner.py",
        "if bad >= 0:",
        "if bad > 0:",
        "test_hosts.py::test_columns_that_do_not_fit_are_named",
    ),
    "a window that looks ahead is final at its closed end": Mutant(
        "kernels/loops/timer_loops.py",
        "if precedes(now[0], t + distances[w], inclusive[w]):",
        "if now[0] < t + distances[w] - inclusive[w]:",
        "test_hosts.py::test_a_result_that_looks_ahead_waits_for_rows_at_the_end_of_its_window",
    ),
    "a row waits for one row too few": Mutant(
        "kernels/loops/timer_loops.py",
        "while p + rows < back and has_passed(times[place(ring, s, p)], now, rules):",
        "while p + rows <= back and has_passed(times[place(ring, s, p)], now, rules):",
        "test_definitions.py::test_rows_of_windows_on_operators",
    ),
    "a Count window on columns has a row too many": Mutant(
        "kernels/column/bounds.py",
        "lo = min(max(i + 1 - behind, begin), hi)",
        "lo = min(max(i - behind, begin), hi)",
        "test_definitions.py::test_rows_of_windows_on_frames",
    ),
    "a Delta window on columns ends before its row": Mutant(
        "kernels/column/bounds.py",
        "his[i] = i + 1",
        "his[i] = i",
        "test_definitions.py::test_rows_of_windows_on_frames",
    ),
    "a thread does not see the peers in the next one": Mutant(
        "kernels/column/bounds.py",
        "while hi < end and values[hi] == values[stop - 1]:",
        "while False:",
        "test_hosts.py::test_threads_change_nothing",
    ),
    "a thread begins a session anew": Mutant(
        "kernels/column/bounds.py",
        "while lo > begin and not starts[lo]:",
        "while False:",
        "test_hosts.py::test_threads_change_nothing",
    ),
    "a sum at the start of a piece lacks a row": Mutant(
        "kernels/column/exact_sum.py",
        "if not begun(x, max(begin, at - size), at, end, size, scratch):",
        "if not begun(x, max(begin, at - size + 1), at, end, size, scratch):",
        "test_hosts.py::test_threads_change_nothing",
    ),
    "a quarter of the rows starts at the wrong place": Mutant(
        "kernels/column/bounds.py",
        "lo2 = _start(values, by, least, closed, begin, two)",
        "lo2 = _start(values, by, least, closed, begin, two) + 1",
        "test_definitions.py::test_rows_of_windows_on_frames",
    ),
    "peers before a row are in a window with an open end": Mutant(
        "kernels/column/bounds.py",
        "if row > first and values[row] != values[row - 1]:",
        "if row > first:",
        "test_definitions.py::test_rows_of_windows_on_frames",
    ),
    "Time windows of several sizes share their closedness": Mutant(
        "columns/stateless.py",
        "alike = [w for w, window in enumerate(windows) if window.closed == closed and _is_plain_time(window)]",
        "alike = [w for w, window in enumerate(windows) if _is_plain_time(window)]",
        "test_hosts.py::test_windows_of_many_sizes_are_as_each_alone",
    ),
    "a size of the ladder is too large": Mutant(
        "kernels/column/min_max.py",
        "by = min(have, size - have)",
        "by = have",
        "test_hosts.py::test_windows_of_many_sizes_are_as_each_alone",
    ),
    "a joined window reaches into another key": Mutant(
        "kernels/column/min_max.py",
        "first = min(end, begin + by)",
        "first = min(end, begin + by - 1)",
        "test_hosts.py::test_windows_of_many_sizes_are_as_each_alone",
    ),
    "equal windows of prefix sums are not copied": Mutant(
        "columns/many_sizes.py",
        "self.out[i], self.uncertain[i] = self.out[same], self.uncertain[same]",
        "pass",
        "test_hosts.py::test_windows_of_many_sizes_are_as_each_alone",
    ),
    "a slide belongs to the one before": Mutant(
        "windows/rules.py",
        "return self.last_slide(x) + 1",
        "return self.last_slide(x)",
        "test_hosts.py::test_rows_and_totals_at_slides_in_time",
    ),
    "slides closed on the right are numbered as on the left": Mutant(
        "windows/rules.py",
        "return (x + (sizes * size - offset - strict)) // every",
        "return (x + (sizes * size - offset)) // every",
        "test_hosts.py::test_slides_lie_on_their_grid",
    ),
    "the offset of slides is lost": Mutant(
        "windows/rules.py",
        "found: Numbers = divided(offset + (k * every - sizes * size), per)",
        "found: Numbers = divided(k * every - sizes * size, per)",
        "test_hosts.py::test_slides_lie_on_their_grid",
    ),
    "panes are not cut where windows start": Mutant(
        "windows/rules.py",
        "grids |= {(every, end % every, strict), (every, (end - int(window.size)) % every, strict)}",
        "grids |= {(every, end % every, strict)}",
        "test_hosts.py::test_slides_lie_on_their_grid",
    ),
    "a slide is due too late": Mutant(
        "kernels/loops/window_loops.py",
        "end = slide_end(max(k, firsts[place(ring, s, lo)]), grid)",
        "end = slide_end(max(k, firsts[place(ring, s, lo)]) + 1, grid)",
        "test_state.py::test_when_something_is_due",
    ),
    "a slide of rows ends with each row": Mutant(
        "kernels/loops/window_loops.py",
        "if heads[s, column] < numbers[i]:",
        "if heads[s, column] <= numbers[i]:",
        "test_hosts.py::test_rows_and_totals_at_slides_in_time",
    ),
    "min_periods wants an input more": Mutant(
        "columns/projected_results.py",
        "return pc.fill_null(pc.greater_equal(counts, pa.scalar(self.projection.min_periods, pa.int64())), False)",
        "return pc.fill_null(pc.greater(counts, pa.scalar(self.projection.min_periods, pa.int64())), False)",
        "test_definitions.py::test_aggregates_of_the_rows",
    ),
    "the n-th value is that after it": Mutant(
        "columns/stateless.py",
        "found = ranges.los + (n - 1) if n > 0 else ranges.his + n",
        "found = ranges.los + n if n > 0 else ranges.his + n",
        "test_definitions.py::test_aggregates_of_the_rows",
    ),
    "a full window on columns is not full": Mutant(
        "columns/stateless.py",
        "return _ordinals(rows) >= int(window.size or 1)",
        "return _ordinals(rows) > int(window.size or 1)",
        "test_hosts.py::test_windows_that_must_be_full",
    ),
    "lag reaches out of its window": Mutant(
        "columns/direct_columns.py",
        "enough = inputs.threads.holds_at_least(ranges, lag.n + 1)",
        "enough = inputs.threads.holds_at_least(ranges, lag.n)",
        "test_definitions.py::test_aggregates_of_the_rows",
    ),
    "a sum of floats forgets the errors of its additions": Mutant(
        "kernels/column/exact_sum.py",
        "return total + ((middle - (total - high)) + rest)",
        "return total",
        "test_hosts.py::test_sums_of_fractions_beside_spikes",
    ),
    "DABA flips too late": Mutant(
        "aggregators/daba.py",
        "if self.L == self.B:",
        "if self.L > self.B:",
        "test_hosts.py::test_structures_keep_their_invariants",
    ),
    "a minimum on columns ignores NaN": Mutant(
        "kernels/column/min_max.py",
        "return (b < a) | ((b != b) & (a == a))",
        "return b < a",
        "test_hosts.py::test_extremes_of_nan",
    ),
    "an eager Count window has a row too many": Mutant(
        "kernels/loops/eager_windows.py",
        "return max(position + 1 - ints[w, ROWS], start), position + 1",
        "return max(position - ints[w, ROWS], start), position + 1",
        "test_definitions.py::test_rows_of_windows_on_eager_operators",
    ),
    "an eager row does not reach the last window that holds it": Mutant(
        "kernels/loops/eager_windows.py",
        "hi = min(b, p + ints[w, ROWS])",
        "hi = min(b, p + ints[w, ROWS] - 1)",
        "test_hosts.py::test_retractions_of_one_call_and_of_whole_slides",
    ),
    "an eager window that is not full has a result": Mutant(
        "kernels/loops/eager_windows.py",
        "asked[i, ON] = ints[w, FULL] == 0 or hi - lo == ints[w, ROWS]",
        "asked[i, ON] = True",
        "test_hosts.py::test_windows_that_must_be_full",
    ),
    "an eager session ends at its gap": Mutant(
        "windows/rules.py",
        "return bool(before < start_of(t, -gap, floor, least))",
        "return bool(before <= start_of(t, -gap, floor, least))",
        "test_definitions.py::test_rows_of_windows_on_eager_operators",
    ),
    "a revision does not count up": Mutant(
        "kernels/loops/eager_loops.py",
        "out[0, count], out[1, count], out[2, count] = i, r, revision[r]",
        "out[0, count], out[1, count], out[2, count] = i, r, -1",
        "test_hosts.py::test_eager_revisions_and_retractions",
    ),
    "unchanged eager results are emitted again": Mutant(
        "kernels/loops/eager_loops.py",
        "changed[r] = differs",
        "changed[r] = True",
        "test_hosts.py::test_eager_results_that_have_not_changed_are_not_emitted_again",
    ),
    "two retractions in a call take back one row": Mutant(
        "engine/revise/eager_engine.py",
        "known[name] = at - 1",
        "known[name] = at",
        "test_hosts.py::test_retractions_of_one_call_and_of_whole_slides",
    ),
    "a slide without rows is not emitted": Mutant(
        "engine/revise/eager_slides.py",
        "emptied = was_emitted & ~has_rows",
        "emptied = np.zeros_like(has_rows)",
        "test_hosts.py::test_retractions_of_one_call_and_of_whole_slides",
    ),
    "expired eager keys stay": Mutant(
        "engine/revise/eager_engine.py",
        "gone = ever & (when <= now)",
        "gone = ever & (when < when)",
        "test_state.py::test_when_a_key_leaves",
    ),
    "eager rows that no window needs stay": Mutant(
        "engine/revise/eager_engine.py",
        "state.shorten(slots[cut], needed[cut])",
        "pass",
        "test_state.py::test_elements_that_no_window_needs_are_evicted",
    ),
    "a timer is not due at its time": Mutant(
        "kernels/loops/timer_loops.py",
        "if rows[s, column] <= now and rows[s, column] < never:",
        "if rows[s, column] < now and rows[s, column] < never:",
        "test_state.py::test_when_something_is_due",
    ),
    "a key expires one unit too late": Mutant(
        "kernels/loops/timer_loops.py",
        "is_over = over[e] if len(over) > 0 else len(now) > 0 and t < never and t <= now[0]",
        "is_over = over[e] if len(over) > 0 else len(now) > 0 and t < never and t < now[0]",
        "test_state.py::test_when_a_key_leaves",
    ),
    "elements are not evicted": Mutant(
        "kernels/loops/timer_loops.py",
        "front = max(heads[s, FRONT], min(max(least, heads[s, BEGIN]), heads[s, BACK]))",
        "front = heads[s, FRONT]",
        "test_state.py::test_elements_that_no_window_needs_are_evicted",
    ),
    "a key is forgotten at the time of forget=": Mutant(
        "engine/keyed/live_engine.py",
        "gap, floor, _, _ = bound(gap, self.numbers, inclusive=True)",
        "gap, floor, _, _ = bound(gap, self.numbers, inclusive=False)",
        "test_hosts.py::test_a_key_restarts_after_forget",
    ),
    "forgotten keys keep their state": Mutant(
        "engine/keyed/live_engine.py",
        "expiry[:], expires[:] = forgotten if self.until_forgotten else sooner, True",
        "pass",
        "test_state.py::test_state_of_keys_that_nothing_needs_is_released",
    ),
    "expired slots are not freed": Mutant(
        "engine/keyed/live_engine.py",
        "self.free(self.gone)",
        "pass",
        "test_state.py::test_state_of_keys_that_nothing_needs_is_released",
    ),
    "the table of slots is not restored after a failed call": Mutant(
        "engine/keyed/live_engine.py",
        "engine.table.restore(self.slots, self.saved)",
        "pass",
        "test_state.py::test_a_function_that_raises_in_the_middle_of_a_call",
    ),
    "panes are not restored after a failed call": Mutant(
        "engine/keyed/live_engine.py",
        "aggregate.restore_states(places, states)",
        "pass",
        "test_state.py::test_a_function_that_raises_in_the_middle_of_a_call",
    ),
    "a failed call stays in the engine": Mutant(
        "engine/live_backend.py",
        "self.engine.rollback()",
        "pass",
        "test_state.py::test_a_function_that_raises_in_the_middle_of_a_call",
    ),
    "keys that a failed call has released are freed": Mutant(
        "engine/keyed/live_engine.py",
        "engine.retain_slots()",
        "pass",
        "test_state.py::test_a_store_that_fails_in_any_operation",
    ),
    "an eager call that failed stays": Mutant(
        "engine/revise/eager_engine.py",
        "self.state.rollback()",
        "pass",
        "test_state.py::test_a_function_that_raises_in_the_middle_of_a_call",
    ),
    "a call that failed for one query has moved others on": Mutant(
        "engine/operator.py",
        "state.undo(progress, unless_saved=commits_itself)",
        "pass",
        "test_hosts.py::test_a_store_that_fails_changes_none_of_several_queries",
    ),
    "a page of another call is read": Mutant(
        "state/page_transaction.py",
        'if expected is not None and expected != meta["generation"]:',
        "if False:",
        "test_state.py::test_truncated_damaged_and_mixed_pages_are_refused",
    ),
    "a page in the place of another is read": Mutant(
        "state/page_transaction.py",
        'if meta["name"] != name:',
        "if False:",
        "test_state.py::test_truncated_damaged_and_mixed_pages_are_refused",
    ),
    "a segment of another write is read": Mutant(
        "state/bucket_reader.py",
        "if marks != log.mark:",
        "if False:",
        "test_state.py::test_a_segment_of_a_write_that_never_was_is_refused",
    ),
    "a changed bucket is not written": Mutant(
        "state/bucket_directory.py",
        "return touched.tolist()",
        "return touched.tolist()[1:]",
        "test_state.py::test_another_operator_continues_after_each_call",
    ),
    "new keys are not among the members of their bucket": Mutant(
        "state/bucket_directory.py",
        "self.members[i] = np.union1d(known, mine)",
        "pass",
        "test_state.py::test_large_keys_and_many_keys_in_a_store",
    ),
    "buffered rows are not written": Mutant(
        "state/durable.py",
        "self.buffered.write(given, header.held, watermark)",
        "pass",
        "test_state.py::test_another_operator_continues_after_each_call",
    ),
    "times of keys are not in the state": Mutant(
        "state/slot_codec.py",
        "self.scalars = [name for name in engine.table.arrays if name not in skipped]",
        'self.scalars = [name for name in engine.table.arrays if name not in skipped and name != "stamps"]',
        "test_state.py::test_another_operator_continues_after_each_call",
    ),
    "partials of sessions are not loaded": Mutant(
        "state/slot_codec.py",
        "part.load(slots, [given.column(name) for name in part.fields])",
        "pass",
        "test_state.py::test_another_operator_continues_after_each_call",
    ),
    "last results are not loaded": Mutant(
        "state/slot_codec.py",
        "self._put_emitted(group, slots, stored.batches[len(self.arenas) + group])",
        "pass",
        "test_state.py::test_another_operator_continues_after_each_call",
    ),
    "timers of loaded keys are not set": Mutant(
        "state/slot_codec.py",
        'engine.timers.lowered(slots, engine.table["stamps"][slots, 1])',
        "pass",
        "test_state.py::test_another_operator_continues_after_each_call",
    ),
    "an obsolete page is not deleted": Mutant(
        "state/page_transaction.py",
        "self.store.delete_many(self.garbage)",
        "pass",
        "test_state.py::test_a_long_window_goes_to_segments_and_only_new_elements_are_written",
    ),
    "segments stay when their elements have left": Mutant(
        "state/bucket_log.py",
        "self._drop(start, a, min(int(needed[j]), log.stop))",
        "pass",
        "test_state.py::test_a_long_window_goes_to_segments_and_only_new_elements_are_written",
    ),
    "retracted or dropped eager rows stay in their pages": Mutant(
        "state/eager_pages.py",
        "self._move(lost, -1)",
        "pass",
        "test_state.py::test_eager_pages_are_merged_and_rows_that_were_taken_back_stay_away",
    ),
    "the offset of the caller is lost": Mutant(
        "state/header_page.py",
        'counters = RowCounts(*meta["counters"], *failed)',
        'counters = RowCounts(*meta["counters"], *failed); meta["offset"] = None',
        "test_state.py::test_another_operator_continues_after_each_call",
    ),
    "the most recently used keys leave memory": Mutant(
        "state/durable.py",
        'oldest_first = loaded[np.argsort(buckets.used[loaded], kind="stable")]',
        'oldest_first = loaded[np.argsort(-buckets.used[loaded], kind="stable")]',
        "test_state.py::test_keys_that_are_used_stay_in_memory_and_others_leave",
    ),
    "keys leave memory although their pages are uncertain": Mutant(
        "state/durable.py",
        "if self.nbytes <= self.limit or self.durable.transaction.uncertain:",
        "if self.nbytes <= self.limit:",
        "test_state.py::test_bounded_memory_with_a_store_that_fails",
    ),
    "buckets with a timer due are not loaded": Mutant(
        "state/bucket_directory.py",
        "return np.flatnonzero(missing if now is None else missing & (self.due <= now) & (self.due != self.never))",
        "return np.flatnonzero(missing if now is None else missing & (self.due < now) & (self.due != self.never))",
        "test_state.py::test_bounded_memory_changes_no_result",
    ),
    "each result counts as changed": Mutant(
        "engine/emit/emitter.py",
        "known = np.where(first & (restarted == 0), emitted[slots, 0], -1)",
        "known = np.full(count, -1)",
        "test_hosts.py::test_only_changes_are_emitted",
    ),
    "a change is compared with an older result": Mutant(
        "engine/emit/emitter.py",
        "emitted[of, 0] = codes",
        "pass",
        "test_hosts.py::test_only_changes_are_emitted",
    ),
    "the fingerprint misses lateness": Mutant(
        "plan/fingerprint.py",
        '"lateness": bound_query.lateness,',
        "",
        "test_state.py::test_state_of_another_query_is_refused",
    ),
    "the fingerprint misses forget": Mutant(
        "plan/fingerprint.py",
        '"forget": bound_query.forget,',
        "",
        "test_state.py::test_state_of_another_query_is_refused",
    ),
    "the fingerprint misses order": Mutant(
        "plan/fingerprint.py",
        '"on": bound_query.query.on,',
        "",
        "test_state.py::test_state_of_another_query_is_refused",
    ),
    "the fingerprint misses the offset": Mutant(
        "plan/fingerprint.py",
        "meaning = [spec.name, spec.kind, spec.size, spec.slide, spec.every, spec.offset, spec.closed, spec.full]",
        "meaning = [spec.name, spec.kind, spec.size, spec.slide, spec.every, spec.closed, spec.full]",
        "test_state.py::test_state_of_another_query_is_refused",
    ),
    "the fingerprint misses min_periods": Mutant(
        "plan/fingerprint.py",
        'meaning["min_periods"] = bound_query.projection.min_periods',
        "pass",
        "test_state.py::test_state_of_other_periods_is_refused",
    ),
    "the fingerprint misses the shift": Mutant(
        "plan/fingerprint.py",
        "if spec.shift:  # state of windows without one is older than shifts",
        "if False:",
        "test_state.py::test_state_of_another_window_is_refused",
    ),
    "the fingerprint misses the time zone": Mutant(
        "plan/fingerprint.py",
        "return [length.clock.zone, length.months, length.days]",
        "return [length.months, length.days]",
        "test_state.py::test_state_of_another_window_is_refused",
    ),
    "aggregates with other parameters share a state": Mutant(
        "plan/queries.py",
        "tuple(_place(aggregates, spec, lambda spec: (spec.columns, spec.monoid)) for spec in one.aggregates),",
        "tuple(_place(aggregates, spec, lambda spec: (spec.columns, type(spec.monoid))) for spec in one.aggregates),",
        "test_hosts.py::test_queries_that_differ_in_one_argument_keep_their_results_apart",
    ),
    "aggregates of other columns share a state": Mutant(
        "plan/queries.py",
        "tuple(_place(aggregates, spec, lambda spec: (spec.columns, spec.monoid)) for spec in one.aggregates),",
        "tuple(_place(aggregates, spec, lambda spec: spec.monoid) for spec in one.aggregates),",
        "test_hosts.py::test_queries_that_differ_in_one_argument_keep_their_results_apart",
    ),
    "windows with other ends share their bounds": Mutant(
        "plan/queries.py",
        "tuple(_place(windows, spec, lambda spec: spec.window) for spec in one.windows),",
        "tuple(_place(windows, spec, lambda spec: (type(spec.window), spec.size)) for spec in one.windows),",
        "test_hosts.py::test_queries_that_differ_in_one_argument_keep_their_results_apart",
    ),
    "counts of other columns share a state": Mutant(
        "plan/common_results.py",
        "return not owner.monoid.nullable and {*owner.columns} == {*aggregate.columns}",
        "return not owner.monoid.nullable",
        "test_definitions.py::test_aggregates_of_the_rows",
    ),
    "a mean serves a sum of another column": Mutant(
        "plan/common_results.py",
        "(k for k in _family(aggregates, aggregate) if aggregates[k].columns == aggregate.columns), number",
        "iter(_family(aggregates, aggregate)), number",
        "test_hosts.py::test_queries_that_differ_in_one_argument_keep_their_results_apart",
    ),
    "a query reads the aggregates of another one": Mutant(
        "plan/queries.py",
        "return {(w, a): cells[self.windows[w], self.aggregates[a]] for w, a in asked}",
        "return {(w, a): cells.get((self.windows[w], a), next(iter(cells.values()))) for w, a in asked}",
        "test_hosts.py::test_queries_that_differ_in_one_argument_keep_their_results_apart",
    ),
    "a lookup holds the rows at its own time, or not": Mutant(
        "engine/keyed/lookup.py",
        "stops = back if at is None else rings.search(time, at, not rule.closed_end)",
        "stops = back if at is None else rings.search(time, at, rule.closed_end)",
        "test_definitions.py::test_lookups_at_a_time",
    ),
    "a lookup of a Count window has a row too many": Mutant(
        "engine/keyed/lookup.py",
        "return np.clip(stops - behind, rings.front, hi), hi",
        "return np.clip(stops - behind - 1, rings.front, hi), hi",
        "test_definitions.py::test_lookups_of_a_shorter_range",
    ),
    "a lookup finds a forgotten key": Mutant(
        "engine/keyed/lookup.py",
        "self.asked[some[beyond(later(last, forget)) <= at]] = -1",
        "pass",
        "test_definitions.py::test_lookups_of_forgotten_keys",
    ),
    "a lookup with closed= counts rows at its time": Mutant(
        "engine/live_backend.py",
        "waiting = waiting.take(np.flatnonzero(waiting.time < at))",
        "waiting = waiting.take(np.flatnonzero(waiting.time <= at))",
        "test_definitions.py::test_lookups_with_ends_as_those_of_a_spine",
    ),
    "a lookup leaves buffered rows in the state": Mutant(
        "engine/live_backend.py",
        "if found.has_stepped:",
        "if False:",
        "test_definitions.py::test_lookups_at_a_time",
    ),
    "as-of counts events at the time of the row": Mutant(
        "columns/as_of_columns.py",
        "ends = self._places_of(here, bound(0, here.dtype, not rule.closed_end), not rule.closed_end)",
        "ends = self._places_of(here, bound(0, here.dtype, rule.closed_end), not rule.closed_end)",
        "test_definitions.py::test_rows_of_windows_as_of_a_spine",
    ),
    "as-of rounds finer times wrongly": Mutant(
        "columns/as_of_columns.py",
        "targets = origins + (rows.ceiling - rows.floor) if inclusive else origins",
        "targets = origins",
        "test_definitions.py::test_a_spine_in_finer_units_than_its_events",
    ),
    "as-of continues a session after its gap": Mutant(
        "columns/as_of_columns.py",
        "return np.where(some & ~silent, first[last], ends).astype(ends.dtype)",
        "return np.where(some, first[last], ends).astype(ends.dtype)",
        "test_definitions.py::test_rows_of_windows_as_of_a_spine",
    ),
    "as-of skips an event in a long search": Mutant(
        "kernels/column/bounds.py",
        "a += width",
        "a += width + 1",
        "test_definitions.py::test_rows_of_windows_as_of_a_spine",
    ),
    "a loop ends a session at its gap": Mutant(
        "windows/rules.py",
        "return bool(t - before > gap)",
        "return bool(t - before >= gap)",
        "test_definitions.py::test_rows_of_windows_in_a_loop",
    ),
    "a loop keeps the event at an open start": Mutant(
        "loop/evictor.py",
        "while gone < held and is_before(values[0], start):",
        "while gone < held and values[0] < start:",
        "test_definitions.py::test_rows_of_windows_in_a_loop",
    ),
    "a loop keeps an event too many": Mutant(
        "loop/evictor.py",
        "return held - self.size if held > self.size else 0",
        "return held - self.size - 1 if held > self.size else 0",
        "test_definitions.py::test_rows_of_windows_in_a_loop",
    ),
    "a loop keeps the event at the size of Delta": Mutant(
        "loop/evictor.py",
        "start = (now if self.is_plain else self._origin(now) if clock is None else clock.last) + self.by",
        "start = (now if self.is_plain else self._origin(now) if clock is None else clock.last - 1) + self.by",
        "test_definitions.py::test_rows_of_windows_in_a_loop",
    ),
    "a loop lets events enter one too early": Mutant(
        "loop/evictor.py",
        "return max(waiting - self.delay, 0)",
        "return max(waiting - self.delay + 1, 0)",
        "test_definitions.py::test_rows_of_windows_in_a_loop",
    ),
    "a loop takes a time before the last": Mutant(
        "loop/evictor.py",
        "if self.last is not None and number < self.last:",
        "if False:",
        "test_hosts.py::test_arguments_at_their_limits_are_accepted",
    ),
    "min_periods may not be the size of the window": Mutant(
        "plan/validation.py",
        'if one.unit == "rows" and query.min_periods > one.length:',
        'if one.unit == "rows" and query.min_periods >= one.length:',
        "test_hosts.py::test_arguments_at_their_limits_are_accepted",
    ),
    "a nearest name is not offered": Mutant(
        "plan/binder.py",
        'meant = f": did you mean {near[0]!r}?" if near else "."',
        'meant = "."',
        "test_hosts.py::test_columns_that_do_not_fit_are_named",
    ),
    "rows per row and per slide may mix": Mutant(
        "plan/validation.py",
        "if len(slides) > 1:",
        "if len(slides) > 2:",
        "test_hosts.py::test_queries_that_are_refused",
    ),
    "an entry after a removed key is lost": Mutant(
        "kernels/loops/key_loops.py",
        "if ((at - table[2 * at]) & mask) >= ((at - hole) & mask):",
        "if ((at - table[2 * at]) & mask) > ((at - hole) & mask):",
        "test_values.py::test_many_keys_come_and_go",
    ),
    "zeros of both signs are two keys": Mutant(
        "columns/keys.py",
        "tidy = np.where(numbers == 0, np.zeros(1, numbers.dtype), numbers)",
        "tidy = numbers.copy()",
        "test_values.py::test_keys_of_every_type_come_and_go",
    ),
    "intervals have no bytes": Mutant(
        "columns/keys.py",
        "values = [*map(_without_intervals, values)]",
        "pass",
        "test_values.py::test_keys_of_every_type_come_and_go",
    ),
    "texts of released keys stay": Mutant(
        "columns/key_columns.py",
        "used: Ints = np.flatnonzero(self._uses[: len(self)])",
        "used: Ints = np.arange(len(self))",
        "test_values.py::test_memory_of_keys_is_released",
    ),
    "texts of keys are renamed to others": Mutant(
        "columns/key_columns.py",
        "renamed[used] = np.arange(len(used))",
        "renamed[used] = np.arange(len(used))[::-1]",
        "test_values.py::test_memory_of_keys_is_released",
    ),
    "windows without a value differ": Mutant(
        "engine/emit/emitter.py",
        "held = np.where(some, count, 0)",
        "held = count",
        "test_operator.py::test_changes_of_every_window",
    ),
    "a window that becomes full has not changed": Mutant(
        "engine/emit/emitter.py",
        "side.append(np.where(on, held, ~held))",
        "side.append(held)",
        "test_operator.py::test_changes_of_windows_that_become_full",
    ),
    "keys of an eager call stay if it fails before its journal is open": Mutant(
        "engine/revise/eager_state.py",
        "self.keys.release(live[~used])",
        "pass",
        "test_interrupts.py::test_a_call_that_fails_anywhere_leaves_no_key",
    ),
    "what a live call undoes is forgotten when it is interrupted": Mutant(
        "engine/keyed/live_engine.py",
        "journal.undo(self)",
        "pass",
        "test_interrupts.py::test_an_interrupt_anywhere_changes_nothing",
    ),
    "all timers are looked at in each call": Mutant(
        "engine/keyed/timers.py",
        "blocks = np.flatnonzero(self.least <= now)",
        "blocks = np.arange(len(self.least))",
        "test_call_costs.py::test_no_array_of_a_call_is_as_long_as_the_keys_that_live",
    ),
    "rows of the reorder buffer are copied in each call": Mutant(
        "engine/intake/reorder_buffer.py",
        "runs = _inserted(runs, staying)",
        "runs = (SortedRun(min(runs or (staying,))[0], 0, _merged([run.rest() for run in (*runs, staying)])),)",
        "test_call_costs.py::test_no_array_of_a_call_is_as_long_as_the_rows_that_wait",
    ),
    "rows that have left the reorder buffer stay in memory": Mutant(
        "engine/intake/reorder_buffer.py",
        "if count > SHRINK and (count - stop) * 4 < count:",
        "if False:",
        "test_call_costs.py::test_memory_of_rows_that_left_the_reorder_buffer_is_released",
    ),
    "process is allowed after finish": Mutant(
        "engine/query_state.py",
        "if now.watermark == math.inf:",
        "if False:",
        "test_hosts.py::test_late_untimed_and_in_time",
    ),
}
"""By what is wrong."""


def place_of(mutant: Mutant, package: Path = PACKAGE) -> int:
    """The number of a mutant's line. Raises ValueError unless the module has it exactly once."""
    lines = (package / mutant.module).read_text().splitlines()
    found = [number for number, line in enumerate(lines) if line.strip() == mutant.line]
    if len(found) != 1:
        raise ValueError(f"{mutant.module} has the line {len(found)} times: {mutant.line!r}; name its successor")
    return found[0]


@contextmanager
def applied(mutant: Mutant, package: Path) -> Iterator[None]:
    """The copy of the package with the line changed, for as long as the block runs."""
    module, place = package / mutant.module, place_of(mutant, package)
    source = module.read_text()
    lines = source.splitlines(keepends=True)
    lines[place] = lines[place].replace(mutant.line, mutant.becomes)
    _write(module, "".join(lines))
    try:
        yield
    finally:
        _write(module, source)


def _write(module: Path, source: str) -> None:
    """Write a module without its bytecode, which may look valid: the file may have the same size and time."""
    module.write_text(source)
    for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
        compiled.unlink()


def run_tests(package: Path, selection: str) -> tuple[int | None, str]:
    """Run tests of this tree on a copy of the package, up to the first that fails: the exit code, and the output.

    None if they do not end. The process is forked from one that has imported what the package and the tests need of
    others: that takes as long as a test.
    """
    output = package.parent / "output"
    process = FORKS.Process(target=_run_pytest, args=(str(package.parent), selection, str(output)))
    process.start()
    process.join(LONGEST)
    if process.is_alive():
        process.kill()
        process.join()
        return None, ""
    return process.exitcode, output.read_text()


FORKS = multiprocessing.get_context("forkserver")


def _run_pytest(folder: str, selection: str, output: str) -> None:
    sys.path[:0] = [folder, str(ROOT)]
    os.chdir(ROOT)
    with open(output, "w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        # nothing is compiled here: tests of what compiled code alone does would fail on any copy
        arguments = ["-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not compiled"]
        code = pytest.main([*arguments, "--hypothesis-profile=unshrunk", selection])
        sys.stdout.flush()
    os._exit(int(code))


def verdict(name: str, package: Path) -> tuple[bool, str]:
    """Whether tests notice a mutant, and what there is to say."""
    mutant = MUTANTS[name]
    try:
        with applied(mutant, package):
            for selection in (f"tests/behaviour/{mutant.noticed_by}", "tests/behaviour"):
                code, output = run_tests(package, selection)
                if code is None:
                    return True, f"a test did not end within {LONGEST} s"
                failed = [line for line in output.splitlines() if line.startswith("FAILED")]
                if code == TESTS_FAILED and failed:
                    return True, failed[0].split(" - ")[0][7:]
                if code != 0:
                    return False, f"pytest did not run {selection}: {output[-2000:]}"
    except ValueError as moved:
        return False, str(moved)
    return False, f"survived: {mutant.module}: {mutant.line!r} → {mutant.becomes!r}"


def main() -> int:
    """Run mutants, and print what notices them. Returns 1 if one survives."""
    parser = argparse.ArgumentParser(prog="make mutants", description="mutation tests through the public surface")
    parser.add_argument("words", nargs="*", help="only mutants whose name or module contains one of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    given = parser.parse_args()
    names = [
        name
        for name, mutant in MUTANTS.items()
        if not given.words or any(word in name or word in mutant.module for word in given.words)
    ]
    os.environ |= {"NUMBA_DISABLE_JIT": "1", "SASH_HYPOTHESIS": "quick"}
    FORKS.set_forkserver_preload(["numba", "numpy", "pandas", "polars", "pyarrow.compute", "pytest"])
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.jobs):
            copy = Path(folder, str(number), PACKAGE.name)
            shutil.copytree(PACKAGE, copy)  # with its bytecode, which stays valid
            copies.put(copy)
        if not given.words:
            package = copies.get()
            code, output = run_tests(package, "tests/behaviour")
            if code != 0:
                print(f"{output}\nthe tests fail on an unchanged copy")  # noqa: T201 (a command)
                return 1
            copies.put(package)

        def judged(name: str) -> tuple[str, bool, str, float]:
            package, start = copies.get(), time.perf_counter()
            try:
                return (name, *verdict(name, package), time.perf_counter() - start)
            finally:
                copies.put(package)

        survivors = 0
        with ThreadPoolExecutor(given.jobs) as pool:
            for made in as_completed([pool.submit(judged, name) for name in names]):
                name, noticed, how, seconds = made.result()
                survivors += not noticed
                print(f"{'ok  ' if noticed else 'GAP '} {seconds:5.1f} s  {name}: {how}", flush=True)  # noqa: T201
    print(f"{len(names) - survivors} of {len(names)} mutants are noticed")  # noqa: T201
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
