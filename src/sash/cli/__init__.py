"""User interfaces: SQL, plots of results, the live page, and the command `sash`.

`sql`            `sash.sql`; `sql_statement`, `sql_select`, `sql_windows` and `sql_aggregates` read a statement
`plots`          `sash.plot`
`main`           the command `sash`: exit codes and errors; `commands` has those that need no job
`environment`    what is installed                 `terminal`      tables for people, CSV and JSON for programs
`table_files`    tables in files                   `job_commands`  run, explain, new
`job_file`       a job file, its lines and keys    `job_query`     its query      `job_pipeline`  its pipeline
`job_yaml`       a job file in YAML                `job_spark`     a job on Spark; `job_spark_stream`: as a stream
`job_script`     a job under spark-submit          `state_query`   the query of a state
`job_template`   a job from columns                `state_commands` inspect, lookup   `state_summary`  what state has
`page`           the live page, of `sash.live_page`; `ui_commands` has `sash ui`
`structure_trace` how a structure changes          `trace_drawing` the same as SVG
`bench`          times of queries                  `bench_rivals`  the same in pandas, polars and DuckDB
`bench_command`  the command bench
`tree_trace`     the nodes of trees                `tree_drawing`  the same as SVG
"""
