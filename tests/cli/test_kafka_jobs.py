"""A job from one topic of Kafka to another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.typed import typed
from tests.pipeline.kafka_cases import MockCluster
from tests.pipeline.pipe_cases import QUERY, rows

JOB = """\
[source]
kind = "kafka"
servers = "{servers}"
topic = "{trades}"
config = {{ log_level = 0 }}
[source.schema]
k = "string"
t = "timestamp[ms, tz=UTC]"
x = "int64"
[query]
windows = "10s"
by = "k"
on = "t"
lateness = "3s"
[query.aggregates]
high = "max(x)"
n = "count(*)"
[sink]
kind = "kafka"
servers = "{servers}"
topic = "{highs}"
key = "k"
config = {{ log_level = 0 }}
"""


def test_topic_to_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cluster, table = MockCluster(), rows(40)
    trades, highs = cluster.topic(), cluster.topic()
    cluster.send_rows(trades, table)
    Path("job.toml").write_text(JOB.format(servers=cluster.servers, trades=trades, highs=highs))
    done = typed("run", "job.toml")
    assert (done.code, done.out, done.err) == (0, "40 rows in, 40 rows out\n", "")
    expected = QUERY.run(table)
    names = ["k", "x", "high", "n"]
    found = [tuple(row[name] for name in names) for row in cluster.rows(highs)]
    assert sorted(found) == sorted(tuple(row[name] for name in names) for row in expected.to_pylist())


def test_silent_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """One line, after the time that the job sets, and nothing of what librdkafka logs."""
    monkeypatch.chdir(tmp_path)
    text = JOB.format(servers="127.0.0.1:1", trades="a", highs="b").replace("config = { log_level = 0 }\n", "")
    text = text.replace("[sink]", "[sink]\ntimeout = 0.3").replace("[source]", "[source]\ntimeout = 0.2")
    Path("job.toml").write_text(text)
    done = typed("run", "job.toml")
    assert done.code == 1
    assert done.err.startswith("sash: no broker of '127.0.0.1:1' answers within 0.3 s: ")
    assert done.err.count("\n") == 1
    assert "within 0.2 s" in typed("run", "job.toml", "--set", "sink.kind=console").err
    assert capfd.readouterr() == ("", "")
    done = typed("run", "job.toml", "--set", "source.timeout=-1")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "timeout= must be a number of seconds above 0; got -1" in done.err


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = JOB.format(servers="localhost:1", trades="a", highs="b")
    schema = text[text.index("[source.schema]") : text.index("[query]")]
    for job, message in [
        (text.replace(schema, ""), "job.toml:1: [source.schema] is needed"),
        (text.replace('topic = "a"\n', ""), "job.toml:1: [source] needs topic ="),
        (text.replace('topic = "a"', 'topic = "a"\nformat = "jsn"'), "job.toml:5: format = 'jsn' is not known; did"),
        (text.replace('topic = "b"', 'path = "b"'), "job.toml:21: path is not a key of kind = 'kafka'"),
    ]:
        Path("job.toml").write_text(job)
        done = typed("run", "job.toml")
        assert done.code == 2
        assert message in done.err


UNSAFE = [
    *("plugin.library.paths", "ssl.engine.location", "ssl.providers", "ssl.engine.id", "sasl.kerberos.kinit.cmd"),
    *("sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.oauthbearer.config", "sasl.oauthbearer.method"),
    *("sasl.oauthbearer.token.endpoint.url", "sasl.jaas.config", "sasl.client.callback.handler.class", "oauth_cb"),
    *("sasl.login.class", "ssl.engine.factory.class", "interceptor.classes", "metric.reporters", "security.providers"),
    *("default.topic.config", "error_cb", "logger", "stats_cb", "metadata.broker.list", "key.deserializer", "x.y"),
]
"""Settings of librdkafka and of Java's client that load code, run commands or reach other servers; and unknown ones."""


@pytest.mark.parametrize("table", ["source", "sink"])
def test_settings_that_may_run_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    monkeypatch.chdir(tmp_path)
    plain = JOB.format(servers="localhost:1", trades="a", highs="b")
    for name in UNSAFE:
        text = plain.replace("config = { log_level = 0 }\n", "") + f'[{table}.config]\n"{name}" = "/tmp/library.so"\n'
        Path("job.toml").write_text(text)
        for engine in ("local", "spark"):
            done = typed("run", "job.toml", "--engine", engine)
            assert done.code == 2, name
            line = len(text.splitlines())
            assert done.err.startswith(f"sash: job.toml:{line}: {name}"), done.err
            assert "is not among the settings of Kafka that are known to run no code" in done.err
            assert done.err.endswith("write allow_imports = true above all tables\n")
    done = typed("run", "job.toml", "--set", f"{table}.config={{plugin={{library={{paths='x'}}}}}}")
    assert "write names of settings in quotes" in done.err
    done = typed("lookup", "job.toml", "k=a")
    assert "known to run no code" in done.err


def test_settings_that_may_run_code_are_passed_on_if_they_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = JOB.format(servers="localhost:1", trades="a", highs="b")
    text = plain.replace("log_level = 0", '"no.such.setting" = 1')
    Path("job.toml").write_text("allow_imports = true\n" + text)
    done = typed("run", "job.toml")
    assert done.code == 1
    assert 'No such configuration property: "no.such.setting"' in done.err


@pytest.mark.parametrize("table", ["source", "sink"])
def test_values_that_librdkafka_does_not_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    monkeypatch.chdir(tmp_path)
    plain = JOB.format(servers="localhost:1", trades="a", highs="b").replace("config = { log_level = 0 }\n", "")
    if table == "source":
        plain = plain[: plain.index("[sink]")] + '[sink]\nkind = "console"\n'
    else:
        Path("rows.csv").write_text("k,t,x\na,2024-05-01T10:00:00Z,1\n")
        plain = '[source]\nkind = "csv"\npath = "rows.csv"\n' + plain[plain.index("[source.schema]") :]
    for setting in ('"session.timeout.ms" = "abc"', '"security.protocol" = "none"', '"ssl.ca.location" = "/nothing"'):
        more = '"security.protocol" = "ssl"\n' if "ssl." in setting else ""
        Path("job.toml").write_text(f"{plain}[{table}.config]\n{more}{setting}\n")
        done = typed("run", "job.toml")
        assert (done.code, done.err.count("\n")) == (1, 1), done.err
        assert done.err.startswith("sash: config= ([source.config] or [sink.config] in a job): "), done.err
        assert "KafkaError" not in done.err


def test_a_setting_that_is_misspelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = JOB.format(servers="localhost:1", trades="a", highs="b")
    Path("job.toml").write_text(text.replace("log_level", "loglevel"))
    assert "loglevel (did you mean 'log_level'?) is not among the settings" in typed("run", "job.toml").err
