"""The live page: running queries in a browser.

`live_page`          the page, for programs             `page_server`        HTTP: files, JSON, events
`query_board`        the queries that are shown         `page_access`        token, Host header, headers
`watched_operator`   observes operators, pipelines      `newest_results`     the last results, in bounded memory
`watched_queries`    observes several queries           `latency_histogram`  percentiles of calls
`watched_stream`     observes a stream of Spark         `plan_picture`       a plan as SVG
`run_directory`      the runs on this machine           `assets`             HTML, CSS, JavaScript
"""
