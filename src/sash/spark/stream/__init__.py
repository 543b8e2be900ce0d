"""Spark streams: a query on a streaming DataFrame gives a streaming DataFrame.

    rows ─▶ pack ─▶ withWatermark ─▶ groupBy(shard).transformWithStateInPandas ─▶ unpack ─▶ rows
            blobs      lateness       an operator, mode "given", whose              typed
            by shard                  pages are in Spark's state

`plan_stream`      the DataFrame of a query, the requirements for a stream, and the check of its checkpoint at the start
`stream_spec`      the parameters that are sent to workers; times as those of Spark's watermark, and back
`pack_shards`      keys to shards, and rows to blobs before the shuffle; `UnpackShards`: results to rows after it
`shard_task`       one shard of one micro-batch: operator, timer, progress; the processor that Spark calls
`local_pages`      a shard's state between micro-batches: in memory, or in a file of the executor
`map_state_store`  a store on Spark's state; `checkpoint`: its header, its pages, and the check of its query
`side_output`      late, untimed and malformed rows, in addition to the results
`shard_progress`   counters of a shard, as columns that Spark sums; `monitor` follows a running query by them
"""
