"""The live page: running queries in a browser.

`live_page`          the page, for programs             `page_server`     HTTP: access, files, JSON, events
`query_board`        the queries that are shown         `newest_results`  the last results, in bounded memory
`watched_operator`   observes operators, pipelines and streams of Spark: counters, latencies, rates
`run_directory`      the runs on this machine           `plan_picture`    a plan as SVG
`assets`             HTML, CSS, JavaScript
"""
