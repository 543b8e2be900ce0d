"""Spark streams: a query on a streaming DataFrame gives a streaming DataFrame.

    rows ─▶ pack ─▶ withWatermark ─▶ groupBy(shard).transformWithState ─▶ unpack ─▶ rows
            a blob     lateness       an operator, mode "given", whose      typed
            a shard                   pages lie in Spark's state

`plan_stream`      the DataFrame of a query, and the requirements for a stream
`stream_spec`      the parameters that are sent to workers
`watermark_codec`  converts times to those of Spark's watermark, and back
`sharding`         assigns keys to shards, and labels shards
`pack_shards`      rows to blobs before the shuffle; `unpack_shards`: results to rows after it
`shard_task`       one shard of one micro-batch: operator, timer, progress
`stream_header`    the query and the timer of a shard's state
`processor`        the processor that Spark calls
`map_state_store`  a store on Spark's state
`side_output`      late, untimed and malformed rows beside the results
`monitor`          the progress of a running query
"""
