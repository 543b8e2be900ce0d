"""Streams: a query on a streaming DataFrame gives a streaming DataFrame.

    rows ─▶ pack ─▶ withWatermark ─▶ groupBy(shard).transformWithState ─▶ unpack ─▶ rows
            a blob     lateness       an operator, mode "given", whose      typed
            a shard                   pages lie in Spark's state

`plan`        the DataFrame of a query, and what a stream must fulfil
`clock`       times as Spark's watermark has them, and back
`shards`      which key goes to which shard, and under which label
`pack`        rows to blobs before the shuffle; `unpack`: results to rows behind it
`shard`       one shard of one micro-batch: operator, timer, counts
`host_page`   of which query the state is, and its timer
`processor`   what Spark calls
`pages`       a store on Spark's state
`aside`       late, untimed and malformed rows beside the results
`monitor`     what a running query does
"""
