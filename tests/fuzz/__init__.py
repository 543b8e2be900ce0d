"""A fuzzer of state: changed snapshots and pages, with matching checksums.

    python -m tests.fuzz --minutes 60 --seed 1
    python -m tests.fuzz --replay failures/1-17-203.case

`corpus`     queries of every kind, and states of theirs: a snapshot, and pages of a store
`frames`     frames taken apart and put together again
`mutate`     what is changed in them
`exercise`   opens a state, uses it, and judges what came of it
`supervise`  runs that in a process with limits of memory and time, and keeps what has failed

A state that was changed is refused with a PageError, or it runs. While it runs, sash may refuse a call for a reason of
its own, as it does with rows: that a row is late, or that an aggregate failed. Anything else is a failure: a crash, a
hang, too much memory, an error that nobody has raised on purpose.
"""
