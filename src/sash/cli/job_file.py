"""A job file: TOML or YAML with the tables source, query, sink, store, spark and options. Nothing in it is executed.

Every mistake is a `WrongUsage` with file, line and the nearest valid name.

Values in YAML are strings, numbers, booleans, lists and tables. Booleans are those of YAML 1.2: only true and false, so
`on:` and `no` are strings. Tags, anchors, null and duplicate keys are refused.

Kafka and Spark have settings that load libraries, run commands or write files: `plugin.library.paths`,
`sasl.jaas.config`, `spark.jars`. New versions add more, so there are lists of those that a job may have, and others
need `allow_imports = true`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sash.cli.main import WrongUsage

# --- Job settings ---

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


# --- Job yaml ---

PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}
"""The default tags of nodes."""

WORDS = {"true": True, "false": False}

INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER_TEXT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

Lines = dict[tuple[str, ...], int]


def read_yaml(path: str, text: str) -> tuple[dict[str, Any], Lines]:
    """The tables of a job in YAML, and the line of each key.

    Raises WrongUsage with file and line for text that is not YAML, or that a job may not have; ImportError without
    PyYAML.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise ImportError(f"{path}: job files in YAML need the package PyYAML: pip install 'sash[cli]'") from None
    try:
        node = yaml.compose(text, yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        why = getattr(error, "problem", None) or " ".join(str(error).split())
        raise WrongUsage(f"{path}:{line}: this is not YAML: {why}") from None
    except RecursionError:
        raise WrongUsage(f"{path}:1: lists and tables are nested too deeply") from None
    if node is None:
        return {}, {}
    reader = _NodeReader(path)
    tables = reader.value(node, ())
    if not isinstance(tables, dict):
        raise WrongUsage(f"{path}:{node.start_mark.line + 1}: a job has tables: source:, query:, sink:")
    return tables, reader.lines


class _NodeReader:
    """Turns nodes of PyYAML into values, and records the line of each key."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: Lines = {}
        self._seen: set[int] = set()

    def value(self, node: Any, place: tuple[str, ...]) -> Any:
        if id(node) in self._seen:
            self._wrong(node, "anchors and aliases are not read: write the value again")
        self._seen.add(id(node))
        if node.tag not in PLAIN:
            self._wrong(node, f"the tag {node.tag!r} is not read: a job has texts, numbers, lists and tables")
        if node.id == "mapping":
            return self._table(node, place)
        if node.id == "sequence":
            return [self.value(one, place) for one in node.value]
        return self._scalar(node)

    def _table(self, node: Any, place: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.id != "scalar" or key.tag not in PLAIN:
                self._wrong(key, "a key must be text")
            name = key.value
            inner = (*place, name)
            if name in found:
                self._wrong(key, f"the key {name!r} occurs twice; the first one is in line {self.lines[inner]}")
            self.lines[inner] = key.start_mark.line + 1
            found[name] = self.value(value, inner)
        return found

    def _scalar(self, node: Any) -> Any:
        text = node.value
        if node.style is not None:  # in quotes, or a block
            return text
        if text in ("", "~", "null"):
            self._wrong(node, "there is no value: write one, or leave the key out")
        if text in WORDS:
            return WORDS[text]
        if INTEGER.fullmatch(text):
            return int(text)
        return float(text) if _NUMBER_TEXT.fullmatch(text) else text

    def _wrong(self, node: Any, text: str) -> NoReturn:
        raise WrongUsage(f"{self.path}:{node.start_mark.line + 1}: {text}")


# --- Job file ---

TEXT, NUMBER, FLAG, TABLE, TEXTS, LENGTH = (str,), (int,), (bool,), (dict,), (str, list), (str, int, float)

KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "source": {
        **dict.fromkeys(("kind", "path", "delimiter", "servers", "topic", "format"), TEXT),
        "timeout": (int, float),
        **dict.fromkeys(("schema", "config"), TABLE),
    },
    "query": {
        **dict.fromkeys(("sql", "where", "emit", "late"), TEXT),
        "windows": (str, int, float, dict),
        **dict.fromkeys(("by", "on"), TEXTS),
        **dict.fromkeys(("lateness", "forget", "ahead"), LENGTH),
        "min_periods": NUMBER,
        "aggregates": TABLE,
    },
    "sink": {
        **dict.fromkeys(("kind", "path", "servers", "topic", "name"), TEXT),
        "timeout": (int, float),
        "key": TEXTS,
        "config": TABLE,
    },
    "side": {"path": TEXT},
    "spark": {**dict.fromkeys(("checkpoint", "master", "trigger"), TEXT), "config": TABLE},
    "store": {"kind": TEXT, "path": TEXT},
    "options": {
        **dict.fromkeys(("malformed", "structure", "prefer", "failed"), TEXT),
        **dict.fromkeys(("batch_size", "threads"), NUMBER),
        "memory": (str, int),
        "finish": FLAG,
    },
}
"""The tables and keys of a job, with the types of their values."""

NEEDED = ("source", "query", "sink")

YAML = (".yaml", ".yml")
"""Suffixes of job files in YAML; others are TOML."""

ENGINES = ("local", "spark")
"""Where a job runs."""

ALWAYS = ("rows_in", "rows_out")
COUNTERS = (*ALWAYS, "late", "untimed", "malformed", "failed", "failed_results")
"""The counters of a run: those that are always shown, and those that are if they are not 0."""

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table", list: "a list"}

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")
_KEY = re.compile(r"""\s*((?:[\w.-]|"[^"]*"|'[^']*')+)\s*=""")
_NAME = re.compile(r""""[^"]*"|'[^']*'|[^.\s]+""")


@dataclass(frozen=True)
class Job:
    """A job file as read: its tables, and the line of each key."""

    path: str
    tables: dict[str, Any]
    lines: Lines
    changed: frozenset[tuple[str, ...]] = frozenset()
    """The places of values that `--set` has replaced."""

    @property
    def engine(self) -> str:
        """The engine that the job names; "local" by default."""
        return str(self.tables.get("engine", "local"))

    def get(self, table: str, key: str, default: Any = None) -> Any:
        """A value, or the default."""
        return self.tables.get(table, {}).get(key, default)

    def needed(self, table: str, key: str) -> Any:
        """A value. Raises WrongUsage if it is missing."""
        found = self.get(table, key)
        if found is None:
            self.wrong((table,), f"[{table}] needs {key} =")
        return found

    def choice(self, table: str, key: str, known: Collection[str]) -> str:
        """A value that must be one of the known names. Raises WrongUsage, with the nearest name, for another."""
        found = self.needed(table, key)
        if found not in known:
            self.wrong((table, key), f"{key} = {found!r} is not known{nearest(found, known)}")
        return str(found)

    def only(self, table: str, kind: str, keys: Collection[str]) -> None:
        """Raises WrongUsage for a key of a table that its kind does not have.

        If `--set` has replaced the kind, keys of the file that belong to the old kind are ignored.
        """
        replaced = (table, "kind") in self.changed
        for key in self.tables.get(table, {}):
            if key not in keys and not (replaced and (table, key) not in self.changed):
                self.wrong((table, key), f"{key} is not a key of {kind}; its keys are {', '.join(keys)}")

    def wrong(self, place: tuple[str, ...], text: str) -> NoReturn:
        """Raises WrongUsage with the line of a key, or of the table that it is in."""
        if self.path.endswith(YAML):
            text = _in_yaml(text)
        if place in self.changed:
            raise WrongUsage(f"--set {'.'.join(place)}: {text}")
        while place and place not in self.lines:
            place = place[:-1]
        raise WrongUsage(f"{self.path}:{self.lines.get(place, 1)}: {text}")


def _in_yaml(text: str) -> str:
    """Rewrite a message about tables and keys of TOML for YAML.

    >>> _in_yaml("[source] needs path ="), _in_yaml("give [spark] checkpoint =")
    ('source: needs path:', 'give spark.checkpoint:')
    """
    text = re.sub(r"\[([\w.]+)\] (\w+) =", r"\1.\2:", text)
    return re.sub(r"(^|needs )(\w+) =", r"\1\2:", re.sub(r"\[([a-z.]+)\]", r"\1:", text))


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a message: the nearest of the known names, and a list of all."""
    near = difflib.get_close_matches(str(name), list(known), 1)
    return (f"; did you mean {near[0]!r}? Known" if near else "; known") + f" names are {', '.join(known)}"


def read_job(path: str, changes: Sequence[str] = ()) -> Job:
    """Read a job file, with changes such as "sink.path=results". Raises WrongUsage for unknown or wrong values."""
    try:
        text = Path(path).read_bytes().decode()
    except UnicodeDecodeError:
        raise WrongUsage(f"{path}: the file is not UTF-8") from None
    except FileNotFoundError:
        near = difflib.get_close_matches(path, [one.name for one in Path().iterdir()], 1)
        more = f"; did you mean {near[0]!r}?" if near else ": `sash new DATA --out job.toml` writes one"
        raise FileNotFoundError(f"there is no job file {path!r}{more}") from None
    except (OSError, ValueError) as error:
        raise OSError(f"the job file {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    tables, lines = read_yaml(path, text) if path.endswith(YAML) else _read_toml(path, text)
    changed = frozenset(_changed(tables, change) for change in changes)
    job = Job(path, tables, lines, changed)
    _check(job)
    return job


def _read_toml(path: str, text: str) -> tuple[dict[str, Any], Lines]:
    try:
        return tomllib.loads(text), _lines(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = found[1] if found else str(text.count("\n") + 1)
        more = "; a job is TOML, or YAML if its name ends in .yaml" if text.lstrip().startswith("{") else ""
        raise WrongUsage(f"{path}:{line}: this is not TOML: {str(error).partition(' (at ')[0]}{more}") from None
    except (RecursionError, ValueError) as error:
        raise WrongUsage(f"{path}: {_beyond(error)}") from None


def _beyond(error: Exception) -> str:
    """What to say of TOML that Python cannot represent."""
    if isinstance(error, RecursionError):
        return "lists and tables are nested too deeply"
    return "a number has too many digits"  # Python converts at most 4,300


def _changed(tables: dict[str, Any], change: str) -> tuple[str, ...]:
    """Apply a change, and return its place."""
    name, equals, text = change.partition("=")
    place = tuple(name.strip().split("."))
    if not equals or len(place) < 2 or not all(place):
        raise WrongUsage(f"--set {change}: write --set table.key=value, such as --set sink.path=results")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # text whose quotes the shell has removed
    except (RecursionError, ValueError) as error:
        raise WrongUsage(f"--set {'.'.join(place)}: {_beyond(error)}") from None
    inner: Any = tables
    for key in place[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise WrongUsage(f"--set {change}: {key} is a value, not a table")
    inner[place[-1]] = value
    return place


def _lines(text: str) -> Lines:
    """The line of each table and key, which `tomllib` does not report."""
    found: Lines = {}
    table: tuple[str, ...] = ()
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quotes:  # inside a multi-line string
            quotes = "" if quotes in line else quotes
            continue
        if header := _HEADER.fullmatch(line):
            table = _names(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_names(key[1])), number)
        for mark in ('"""', "'''"):
            if line.count(mark) % 2:
                quotes = mark
    return found


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in _NAME.findall(dotted))


def _check(job: Job) -> None:
    for table, values in job.tables.items():
        if table == "engine":
            if values not in ENGINES:
                job.wrong(("engine",), f"engine = {values!r} is not known{nearest(str(values), ENGINES)}")
            continue
        if table == "allow_imports":
            if not isinstance(values, bool):
                job.wrong(("allow_imports",), f"allow_imports must be true or false; got {values!r}")
            continue
        if table not in KEYS:
            known = [*KEYS, "engine", "allow_imports"]
            job.wrong((table,), f"there is no {table!r} in a job{nearest(table, known)}")
        if not isinstance(values, dict):
            job.wrong((table,), f"{table} must be a table: [{table}]")
        for key, value in values.items():
            if key not in KEYS[table]:
                job.wrong((table, key), f"[{table}] has no key {key!r}{nearest(key, KEYS[table])}")
            types = KEYS[table][key]
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                wanted = " or ".join(_NAMES[one] for one in types)
                job.wrong((table, key), f"{key} must be {wanted}; got {value!r}")
    for table in NEEDED:
        if table not in job.tables:
            job.wrong((), f"there is no table [{table}]")
    check_clients(job)
