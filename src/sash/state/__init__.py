"""State at rest: the live state of an operator as pages of a store, and back.

    live state ─▶ state_codec, eager_codec ─▶ bucket_log, eager_pages, buffer_pages ─▶ page_transaction ─▶ store

`durable_state`     all pages of an operator, and the keys that leave memory
`state_codec`       slots and elements of some keys as record batches; `state_checks` validates them before they are
                    loaded; `column_sharing` leaves out columns that repeat
`bucket_directory`, `bucket_log`, `bucket_reader`   keys by hash: which page has which, appended elements, loading
`eager_codec`, `eager_pages`   the same for emit="eager"
`buffer_pages`      rows that wait
`state_header`, `root_page`    progress and the list of pages; the schema and the description of the query
`migration_rules`, `state_transfer`   the state of one query for another

It reads and fills the state of keys (`sash.engine.keyed`, `sash.engine.revise`). It knows no hosts, and no results.
"""
