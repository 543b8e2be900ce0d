"""The state of keys for emit="final" and "changes": windows, elements and aggregates, in arrays over all keys.

    rows ─▶ key_table ─▶ an assigner a window ─▶ live_aggregate ─▶ results
            key to slot   elements, bounds         structures in slots

`live_engine`    one step: all of the above, with the journal that undoes it
`slot_table`, `arena`   numbers by slot, and elements by slot in rings or chains of chunks; no growth copies the state
                 of other keys, nor a window; `timers`: slots that are due
`row_assigner`, `pane_assigner`, `running_assigner`, `ahead_assigner`   elements and bounds by kind of window; base
                 class in `window_assigner`
`live_group`, `live_aggregate`   aggregates of windows that share elements
`value_encoder`, `rank_labels`, `chunk_log`   values that are no numbers, as codes
`lookup`         the aggregates of some keys without a change of state; `partials`: those of one key, for others

It knows neither pages nor stores.
"""
