"""Spark streams: a query on a streaming DataFrame gives a streaming DataFrame.

    rows ─▶ pack ─▶ withWatermark ─▶ groupBy(shard).transformWithStateInPandas ─▶ unpack ─▶ rows
            blobs      lateness       an operator, mode "given", whose              typed
            by shard                  pages are in Spark's state

`plan_stream`      the DataFrame of a query, and the requirements for a stream
`stream_spec`      the parameters that are sent to workers
`watermark_codec`  converts times to those of Spark's watermark, and back
`sharding`         assigns keys to shards, and labels shards
`pack_shards`      rows to blobs before the shuffle; `unpack_shards`: results to rows after it
`shard_task`       one shard of one micro-batch: operator, timer, progress
`live_state`       a shard's state between micro-batches: in memory, or in a file of the executor
`local_directory`  the files of an executor; `local_pages`: the pages of a shard in one of them
`stream_header`    the page of a shard with the query's fingerprint and the timer
`processor`        the processor that Spark calls, with DataFrames of blobs
`checkpoint_check` refuses, on the driver, a checkpoint of another query; `checked_writer` calls it at the start
`checkpoint_pages` reads the pages in a checkpoint
`map_state_store`  a store on Spark's state
`side_output`      late, untimed and malformed rows, in addition to the results
`hot_keys`         the key with the most rows of a shard
`progress`         counters of a shard, as columns that Spark sums
`monitor`          follows the progress of a running query; `progress_feed` gets it from a listener or by polling
`micro_batch`      the counters of one micro-batch; `monitor_metrics`: as a dict, and for Prometheus
`watermark_stall`  finds out why a watermark does not advance
"""
