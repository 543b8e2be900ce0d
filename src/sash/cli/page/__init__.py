"""The live page: running queries in a browser.

`live_page`          the page, for programs             `page_server`     HTTP: access, files, JSON, events
`query_board`        the queries that are shown         `newest_results`  the last results, in bounded memory
`watched_operator`   observes operators and pipelines: counters, latencies, rates
`watched_stream`     observes a stream of Spark         `plan_picture`    a plan as SVG
`run_directory`      the runs on this machine           `assets`          HTML, CSS, JavaScript
"""
