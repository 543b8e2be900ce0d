"""What people look at and type: SQL, pictures of results, and the command `sash`.

`sql`            `sash.sql`; `sql_statement`, `sql_select`, `sql_windows` and `sql_aggregates` read a statement
`plots`          `sash.plot`
`main`           the command `sash`: exit codes and errors; `commands` has those that need no job
`environment`    what is installed                 `terminal`      tables for people, CSV and JSON for programs
`table_files`    tables in files                   `job_commands`  run, explain, new
`job_file`       a job file, its lines and keys    `job_query`     its query      `job_pipeline`  its pipeline
`job_spark`      a job in batch on Spark
`job_template`   a job from columns                `state_commands` inspect, lookup   `state_summary`  what state has
`structure_trace` how a structure changes          `trace_drawing` the same as SVG
"""
