"""User interfaces: SQL, plots of results, the live page, and the command `sash`.

`sql`            `sash.sql`; `sql_statement`, `sql_windows` and `sql_aggregates` read a statement
`plots`          `sash.plot`; `page`: the live page, of `sash.live_page`
`main`           the command `sash`: exit codes and errors; `commands` has those that need no job
`job_commands`   run, explain, new, ui: `job_file` (TOML or YAML, checked), `job_query`, `job_pipeline`, `job_spark`,
                 `job_template`; `job_script`: under spark-submit
`store_commands` inspect, lookup, migrate, backup: `inspect` says what a state has, and its query
`terminal`       tables for people, CSV and JSON for programs, without control characters; `table_files`
`structure_trace`   how a structure changes, as text and SVG        `bench`   times of queries, also in other libraries
"""
