"""Spark streams: a query on a streaming DataFrame gives a streaming DataFrame.

    rows ─▶ pack ─▶ withWatermark ─▶ groupBy(shard).transformWithState ─▶ unpack ─▶ rows
            a blob     lateness       an operator, mode "given", whose      typed
            a shard                   pages lie in Spark's state

`plan_stream`      the DataFrame of a query, and the requirements for a stream
`stream_spec`      what workers must know
`watermark_codec`  times as Spark's watermark has them, and back
`sharding`         which key goes to which shard, and the labels of shards
`pack_shards`      rows to blobs before the shuffle; `unpack_shards`: results to rows after it
`shard_task`       one shard of one micro-batch: operator, timer, progress
`stream_header`    the query and the timer of a shard's state
`processor`        what Spark calls
`map_state_store`  a store on Spark's state
`side_output`      late, untimed and malformed rows beside the results
`monitor`          the progress of a running query
"""
