"""The settings of Kafka and Spark that a job file may have; others need `allow_imports = true`.

Both have settings that load libraries, run commands or write files: `plugin.library.paths`, `sasl.jaas.config`,
`spark.jars`. New versions add more, so these are lists of what is allowed, not of what is not.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sash.cli.job_file import Job

_KAFKA = """
    client.id client.rack client.dns.lookup group.id group.instance.id bootstrap.servers
    security.protocol sasl.mechanism sasl.mechanisms sasl.username sasl.password sasl.kerberos.service.name
    ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.pem
    ssl.key.password ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.keystore.key
    ssl.keystore.certificate.chain ssl.truststore.location ssl.truststore.password ssl.truststore.type
    ssl.truststore.certificates ssl.crl.location ssl.cipher.suites ssl.curves.list ssl.sigalgs.list
    ssl.protocol ssl.enabled.protocols ssl.endpoint.identification.algorithm enable.ssl.certificate.verification
    https.ca.location https.ca.pem
    session.timeout.ms heartbeat.interval.ms max.poll.interval.ms max.poll.records default.api.timeout.ms
    request.timeout.ms message.timeout.ms delivery.timeout.ms transaction.timeout.ms max.block.ms
    socket.timeout.ms socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms connections.max.idle.ms
    reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms retries message.send.max.retries
    metadata.max.age.ms topic.metadata.refresh.interval.ms api.version.request api.version.request.timeout.ms
    broker.address.family broker.address.ttl broker.version.fallback socket.keepalive.enable socket.nagle.disable
    socket.max.fails socket.send.buffer.bytes socket.receive.buffer.bytes send.buffer.bytes receive.buffer.bytes
    message.max.bytes message.copy.max.bytes receive.message.max.bytes max.request.size max.in.flight
    max.in.flight.requests.per.connection fetch.min.bytes fetch.max.bytes fetch.message.max.bytes fetch.wait.max.ms
    fetch.max.wait.ms fetch.error.backoff.ms fetch.queue.backoff.ms max.partition.fetch.bytes queued.min.messages
    queued.max.messages.kbytes check.crcs isolation.level auto.offset.reset allow.auto.create.topics
    enable.auto.commit enable.partition.eof enable.idempotence transactional.id acks request.required.acks
    linger.ms queue.buffering.max.ms queue.buffering.max.messages queue.buffering.max.kbytes batch.size
    batch.num.messages buffer.memory compression.type compression.codec compression.level partitioner
    sticky.partitioning.linger.ms log_level log.connection.close log.queue debug
"""
# neither kinit nor its arguments: librdkafka passes the principal and the keytab to a shell

KAFKA = frozenset(_KAFKA.split())
"""Settings of librdkafka, and of the client of Spark's connector, that load no code, run no command, write no file."""

_SPARK = """
    app.name default.parallelism cores.max task.cpus task.maxFailures locality.wait network.timeout
    ui.enabled ui.port ui.showConsoleProgress rpc.message.maxSize
    driver.memory driver.memoryOverhead driver.cores driver.maxResultSize driver.port
    executor.memory executor.memoryOverhead executor.cores executor.instances executor.pyspark.memory
    executor.heartbeatInterval memory.fraction memory.storageFraction memory.offHeap.enabled memory.offHeap.size
    shuffle.compress shuffle.spill.compress shuffle.file.buffer reducer.maxSizeInFlight speculation
    dynamicAllocation.enabled dynamicAllocation.minExecutors dynamicAllocation.maxExecutors
    dynamicAllocation.initialExecutors dynamicAllocation.executorIdleTimeout
    dynamicAllocation.shuffleTracking.enabled sash.localState.limit
    sql.shuffle.partitions sql.session.timeZone sql.warehouse.dir sql.autoBroadcastJoinThreshold sql.broadcastTimeout
    sql.adaptive.enabled sql.adaptive.coalescePartitions.enabled sql.adaptive.skewJoin.enabled
    sql.adaptive.advisoryPartitionSizeInBytes sql.ansi.enabled sql.caseSensitive
    sql.files.maxPartitionBytes sql.files.openCostInBytes sql.files.minPartitionNum sql.files.maxPartitionNum
    sql.files.maxRecordsPerFile sql.files.ignoreCorruptFiles sql.files.ignoreMissingFiles
    sql.parquet.compression.codec sql.parquet.mergeSchema sql.parquet.outputTimestampType
    sql.legacy.parquet.nanosAsLong sql.execution.arrow.maxRecordsPerBatch sql.execution.arrow.maxBytesPerBatch
    sql.streaming.minBatchesToRetain sql.streaming.metricsEnabled sql.streaming.numRecentProgressUpdates
    sql.streaming.stateStore.minDeltasForSnapshot sql.streaming.stateStore.maintenanceInterval
    sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled
    sql.streaming.stateStore.rocksdb.compactOnCommit sql.streaming.stateStore.rocksdb.blockSizeKB
    sql.streaming.stateStore.rocksdb.blockCacheSizeMB sql.streaming.stateStore.rocksdb.lockAcquireTimeoutMs
    sql.streaming.stateStore.rocksdb.boundedMemoryUsage sql.streaming.stateStore.rocksdb.maxMemoryUsageMB
    sql.streaming.stateStore.rocksdb.writeBufferSizeMB sql.streaming.stateStore.rocksdb.maxWriteBufferNumber
    hadoop.fs.s3a.access.key hadoop.fs.s3a.secret.key hadoop.fs.s3a.session.token hadoop.fs.s3a.endpoint
    hadoop.fs.s3a.endpoint.region hadoop.fs.s3a.path.style.access hadoop.fs.s3a.connection.ssl.enabled
"""

# not the addresses of the driver: it takes Java objects without authentication, and listens on this machine only

SPARK = frozenset(_SPARK.split())
"""Settings of Spark, without `spark.`, that load no code, run no command and name no server to run tasks."""

_LOCAL = re.compile(r"local(\[[\d*, ]+\])?|local-cluster\[[\d, ]+\]")
"""Masters that are this machine."""

TRUST = "if you trust this job, write allow_imports = true above all tables"


def check_clients(job: Job) -> None:
    """Raises WrongUsage for a setting of Kafka, in [source.config] or [sink.config], that may run code."""
    for table in ("source", "sink"):
        config = job.get(table, "config", {})
        for name in config if not _is_trusted(job) else ():
            place = (table, "config", name)
            if isinstance(config[name], dict):
                job.wrong(place, f'{name} is a table: write names of settings in quotes, such as "client.id" = "sash"')
            _require(job, place, name, KAFKA, "Kafka")


def check_spark(job: Job) -> None:
    """Raises WrongUsage for a setting of Spark that may run code, and for a master that is not this machine."""
    if _is_trusted(job):
        return
    places: dict[tuple[str, ...], Any] = {("spark", "master"): job.get("spark", "master")}
    for name, value in job.get("spark", "config", {}).items():
        place, known = ("spark", "config", name), name.removeprefix("spark.")
        if isinstance(value, dict):
            job.wrong(place, f'{name} is a table: write names of settings in quotes, such as "sql.ansi.enabled" = true')
        if known == "master":
            places[place] = value
        else:
            _require(job, place, known, SPARK, "Spark")
    for named, master in places.items():
        if master is not None and not _LOCAL.fullmatch(str(master)):
            job.wrong(named, f"master = {master!r} runs code of other machines: give it to spark-submit, or {TRUST}")


def _is_trusted(job: Job) -> bool:
    return job.tables.get("allow_imports") is True


def _require(job: Job, place: tuple[str, ...], name: str, known: Collection[str], of: str) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.8)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        job.wrong(place, f"{place[-1]}{hint} is not among the settings of {of} that are known to run no code: {TRUST}")
