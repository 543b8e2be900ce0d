"""State at rest: the live state of an operator as pages of a store, and back.

    live state ─▶ slot_codec, eager_codec ─▶ bucket_log, eager_pages, buffer_pages ─▶ page_transaction ─▶ store

`durable`             all pages of an operator, and the keys that leave memory
`slot_codec`          slots and elements of some keys as record batches; `page_checks` validates them before they are
                      loaded; `repeated_columns` leaves out columns that repeat
`bucket_directory`, `bucket_log`, `bucket_reader`   keys by hash: which page has which, appended elements, loading
`followed_state`      the state of an operator that writes: single keys, for lookups
`eager_codec`, `eager_pages`   the same for emit="eager"
`buffer_pages`        rows that wait
`header_page`, `root_page`     progress and the list of pages; the schema and the description of the query
`transfer`            the state of one query for another

It reads and fills the state of keys (`sash.engine.keyed`, `sash.engine.revise`). It knows no hosts, and no results.
"""
