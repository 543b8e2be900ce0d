"""A Valkey server that stops, restarts, forgets, refuses or cannot be trusted; answers that are lost on the way."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import valkey

from sash.stores import StoreError, StoreUnavailable, ValkeyStore, WriterReplaced
from tests.stores.servers import Proxy, free_port, serving, url_of

PAGES = {"a": b"1" * 1000, "b": b"1"}


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Any]:
    """A server that a test may stop. It has everything it has confirmed after a restart."""
    with serving(tmp_path / "valkey", appendonly="yes", appendfsync="always") as server:
        yield server


def test_a_restart_during_a_call(own_server: Any) -> None:
    with ValkeyStore(url_of(own_server), timeout=20) as store:
        store.put_many(PAGES)
        own_server.stop()
        restart = threading.Timer(0.3, own_server.start)
        restart.start()
        store.put_many({"a": b"2"})
        assert dict(store.scan()) == PAGES | {"a": b"2"}
        restart.join()


def test_a_server_that_is_away_too_long(own_server: Any) -> None:
    url = url_of(own_server)
    with ValkeyStore(url, timeout=0.7) as store:
        store.put_many(PAGES)
        own_server.stop()
        for use in (lambda: store.put_many({"a": b"2"}), lambda: store.get_many(["a"]), lambda: list(store.scan())):
            begin = time.monotonic()
            with pytest.raises(StoreUnavailable, match=rf"{url} did not answer within 0\.7 s \(.*refused.*\): repeat"):
                use()
            assert time.monotonic() - begin < 5
        own_server.start()
        assert dict(store.scan()) == PAGES
        store.put_many({"a": b"2"})
        assert store.get_many(["a"]) == [b"2"]


def test_a_server_that_hangs(own_server: Any) -> None:
    with ValkeyStore(url_of(own_server), timeout=0.8) as store:
        store.put_many(PAGES)
        process = own_server._process.pid
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.8 s \(Timeout"):
                store.put_many({"a": b"2"})
        finally:
            os.kill(process, signal.SIGCONT)
        store.put_many({"a": b"3"})  # whether or not the write before it has arrived
        assert store.get_many(["a"]) == [b"3"]


def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"valkey://127\.0\.0\.1:\d+ did not answer within 0\.1 s"):
        ValkeyStore(f"valkey://127.0.0.1:{free_port()}", timeout=0.1)
    with pytest.raises(StoreUnavailable, match=rf"unix://{tmp_path}/none did not answer within 0\.1 s"):
        ValkeyStore(f"unix://{tmp_path}/none", timeout=0.1, read_only=True)


def test_a_server_that_has_forgotten_everything(tmp_path: Path) -> None:
    with serving(tmp_path) as server, ValkeyStore(url_of(server)) as store:
        store.put_many(PAGES)
        server.stop()
        server.start()
        with pytest.raises(WriterReplaced, match=r"is gone: the server has lost its data.*open the store again"):
            store.put_many({"a": b"2"})
        assert dict(store.scan()) == {}, "a half of the state would be worse than none"


def test_a_server_that_has_lost_its_last_writes(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with ValkeyStore(url_of(server)) as store:
            store.put_many(PAGES)
            with server.client() as client:
                client.save()
            store.put_many({"a": b"2"})
            server.terminate()
            server.start()
            with pytest.raises(WriterReplaced, match=r"has lost writes that the server had confirmed"):
                store.put_many({"b": b"2"})
        with ValkeyStore(url_of(server), wait=20) as store:
            assert dict(store.scan()) == PAGES, "whole, if old"


# ---- answers and requests that are lost, or late ----


@pytest.fixture
def proxy(valkey_server: Any) -> Iterator[Proxy]:
    made = Proxy(valkey_server.port)
    yield made
    made.close()


def through(proxy: Proxy, prefix: str, timeout: float = 5) -> ValkeyStore:
    return ValkeyStore(f"redis://127.0.0.1:{proxy.port}", prefix=prefix, timeout=timeout)


def test_a_lost_answer_is_asked_for_again(proxy: Proxy, prefix: str) -> None:
    with through(proxy, prefix) as store:
        store.put_many(PAGES)
        proxy.lose_answers, proxy.losses = b"second", 3
        store.put_many({"a": b"second"})
        assert proxy.lost == 3
        store.delete_many(["b"])
        assert dict(store.scan()) == {"a": b"second"}


def test_a_write_without_an_answer_can_be_repeated(proxy: Proxy, prefix: str, server_url: str) -> None:
    with through(proxy, prefix, timeout=0.7) as store:
        proxy.lose_answers = b"second"
        with pytest.raises(StoreUnavailable):
            store.put_many({"a": b"second"})
        with ValkeyStore(server_url, prefix=prefix, read_only=True) as reader:
            assert reader.get_many(["a"]) == [b"second"], "it was written, only the answer is missing"
        with pytest.raises(StoreUnavailable):
            store.put_many({"b": b"second"})
        proxy.lose_answers = b""
        store.put_many({"a": b"third"})
        assert dict(store.scan()) == {"a": b"third", "b": b"second"}


def test_a_write_that_arrives_late_does_not_undo_the_next_one(proxy: Proxy, prefix: str) -> None:
    with through(proxy, prefix, timeout=0.7) as store:
        store.put_many({"a": b"first"})
        proxy.hold = b"second"
        with pytest.raises(StoreUnavailable):
            store.put_many({"a": b"second"})
        proxy.hold = b""
        store.put_many({"a": b"third"})
        assert proxy.held
        proxy.release()
        assert store.get_many(["a"]) == [b"third"]
        store.put_many({"a": b"fourth"})
        assert store.get_many(["a"]) == [b"fourth"]


# ---- servers that refuse ----


def test_wrong_passwords(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with server.client() as client:
            client.config_set("requirepass", "se#cret")
        place = f"127.0.0.1:{server.port}"
        for url in (f"redis://{place}", f"redis://:guess@{place}", f"valkey://me:guess@{place}/0?db=0"):
            for read_only in (False, True):
                with pytest.raises(StoreError, match=rf"://(me@)?{place}(/0)? refuses user or password: ") as caught:
                    ValkeyStore(url, read_only=read_only, timeout=5)
                assert "guess" not in str(caught.value)
        with ValkeyStore(f"redis://:se%23cret@{place}") as store:
            store.put_many(PAGES)
            assert dict(store.scan()) == PAGES
            assert "cret" not in repr(store)


READER = "+hmget +hlen +zrangebylex"
WRITER = f"{READER} +eval +evalsha +get +set +hset +hdel +zadd +zrem +zcard +del +pttl +pexpire"


def test_the_rights_that_the_documentation_names_are_enough(valkey_server: Any, prefix: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "stores.md").read_text("utf-8").replace("\n  ", " ")
    assert f"~{{prefix}}:* {WRITER}" in page
    place = f"127.0.0.1:{valkey_server.port}"
    with valkey_server.client() as client:
        for user, rights in (("writer", WRITER), ("reader", READER)):
            client.execute_command("ACL SETUSER", user, "on", ">pw", f"~{{{prefix}}}:*", *rights.split())
    with ValkeyStore(f"redis://writer:pw@{place}", prefix=prefix, lease=1.2) as store:
        store.put_many(PAGES)
        store.delete_many(["b"])
        time.sleep(1.4)
        with pytest.raises(StoreError, match="open for writing"):
            ValkeyStore(f"redis://writer:pw@{place}", prefix=prefix)
        with ValkeyStore(f"redis://reader:pw@{place}", prefix=prefix, read_only=True) as reader:
            assert list(reader.scan()) == [("a", PAGES["a"])]
            assert reader.get_many(["a"]) == [PAGES["a"]]
    for options in ({"prefix": prefix}, {"prefix": prefix + "x", "read_only": True}):
        with pytest.raises(StoreError, match=r"redis://reader@.* refuses the command: .*permission"):
            ValkeyStore(f"redis://reader:pw@{place}", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://localhost:6379", r"url must begin with one of valkey://, .*unix://; got 'http'"),
        ("localhost:6379", r"got 'localhost'"),
        ("", r"got ''"),
        ("redis://:se#cret@localhost", r"percent-encoded"),
        ("redis://:se/cret@localhost:port", r"percent-encoded"),
        ("unix://", r"is not a valid unix:// address"),
        ("redis://localhost?no_such_option=1", r"is not a valid redis:// address"),
    ],
)
def test_wrong_urls(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        ValkeyStore(url, timeout=0.1)
    assert "cret" not in "".join(map(str, [caught.value, caught.value.__cause__]))


def test_wrong_arguments(server_url: str, prefix: str) -> None:
    for wrong in ("", "a{b", "a}", None, 7):
        with pytest.raises(ValueError, match=r"prefix must be text without braces, and not empty; got"):
            ValkeyStore(server_url, prefix=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"timeout must be a positive number of seconds; got 0"):
        ValkeyStore(server_url, prefix=prefix, timeout=0)
    with pytest.raises(ValueError, match=r"lease must be at least 0\.1 seconds; got 0"):
        ValkeyStore(server_url, prefix=prefix, lease=0)
    with pytest.raises(ValueError, match=r"lease must be at least 0\.1 seconds; got inf"):
        ValkeyStore(server_url, prefix=prefix, lease=float("inf"))
    with pytest.raises(ValueError, match=r"wait must be 0 seconds or more; got nan"):
        ValkeyStore(server_url, prefix=prefix, wait=float("nan"))
    for name in ("timeout", "lease", "wait"):
        with pytest.raises(TypeError, match=rf"{name} must be a number of seconds; got '5'"):
            ValkeyStore(server_url, prefix=prefix, **{name: "5"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"url must be a URL or a client of the package valkey; got a int"):
        ValkeyStore(6379)  # type: ignore[arg-type]
    with (
        valkey.Valkey.from_url(server_url, decode_responses=True) as client,
        pytest.raises(ValueError, match=r"decode_responses=True, and pages are bytes"),
    ):
        ValkeyStore(client)


def test_a_server_out_of_memory(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.client() as client, ValkeyStore(url_of(server), lease=1.5) as store:
        store.put_many(PAGES)
        client.config_set("maxmemory", "1")
        with pytest.raises(StoreUnavailable, match=r"valkey://.* is out of memory \(maxmemory\) and refuses to write"):
            store.put_many({"a": b"2", "c": b"2"})
        assert dict(store.scan()) == PAGES
        store.delete_many(["b"])  # what helps is allowed
        time.sleep(1.8)
        assert client.exists("{sash}:lease"), "the lease is renewed"
        client.config_set("maxmemory", "0")
        store.put_many({"a": b"2", "c": b"2"})
        assert dict(store.scan()) == {"a": b"2", "c": b"2"}


def test_a_server_that_cannot_save(tmp_path: Path) -> None:
    config = {"save": "3600 1", "enable_protected_configs": "yes"}
    with serving(tmp_path, **config) as server, server.client() as client, ValkeyStore(url_of(server)) as store:
        store.put_many(PAGES)
        client.config_set("dir", "/proc")  # nobody can create a file there
        client.bgsave()
        while client.info("persistence")["rdb_last_bgsave_status"] == "ok":
            time.sleep(0.02)
        with pytest.raises(StoreUnavailable, match=r"cannot save to its disk and refuses to write: MISCONF"):
            store.put_many({"a": b"2"})
        assert dict(store.scan()) == PAGES
        client.config_set("stop-writes-on-bgsave-error", "no")
        store.put_many({"a": b"2"})


def test_a_replica_is_read_only(tmp_path: Path, valkey_server: Any, prefix: str, server_url: str) -> None:
    with ValkeyStore(server_url, prefix=prefix) as store:
        store.put_many(PAGES)
    with serving(tmp_path, replicaof=f"127.0.0.1 {valkey_server.port}") as replica, replica.client() as client:
        while client.info("replication")["master_link_status"] != "up":
            time.sleep(0.02)
        with pytest.raises(
            StoreError, match=r"is a replica and cannot write: open its primary, or pass read_only=True"
        ):
            ValkeyStore(url_of(replica), prefix=prefix)
        with ValkeyStore(url_of(replica), prefix=prefix, read_only=True) as reader:
            assert dict(reader.scan()) == PAGES


def test_other_data_under_the_keys(valkey_server: Any, prefix: str, server_url: str) -> None:
    with valkey_server.client() as client:
        client.set(f"{{{prefix}}}:pages", "text")
    with pytest.raises(StoreError, match="has something else under the keys of the store: choose another prefix"):
        ValkeyStore(server_url, prefix=prefix, read_only=True)
    with pytest.raises(StoreError, match="has something else under the keys of the store: choose another prefix"):
        ValkeyStore(server_url, prefix=prefix)


def test_keys_that_somebody_else_has_changed(valkey_server: Any, prefix: str, server_url: str) -> None:
    with ValkeyStore(server_url, prefix=prefix) as store:
        store.put_many(PAGES)
    with valkey_server.client() as client:
        client.delete(f"{{{prefix}}}:names")
    with pytest.raises(StoreError, match=rf"the store '{prefix}' at .* has different numbers of names and pages"):
        ValkeyStore(server_url, prefix=prefix)


def test_a_server_that_runs_a_long_script(tmp_path: Path) -> None:
    """It refuses other commands meanwhile, as after a write of a gigabyte."""
    with serving(tmp_path, busy_reply_threshold=50) as server, ValkeyStore(url_of(server)) as store:
        store.put_many(PAGES)
        with server.client() as client:
            loop = "local t = redis.call('TIME'); repeat local n = redis.call('TIME') until n[1] - t[1] >= 2"
            other = threading.Thread(target=client.eval, args=(loop, 0))
            other.start()
            time.sleep(0.3)
            store.put_many({"a": b"2"})
            other.join()
        assert store.get_many(["a"]) == [b"2"]


def test_a_node_of_a_cluster_needs_a_client_of_the_cluster(cluster_client: Any, prefix: str) -> None:
    """With one node, no slot is elsewhere: the store has its keys in one slot, or the node would refuse the script."""
    node = cluster_client.get_default_node()
    with ValkeyStore(f"redis://{node.host}:{node.port}", prefix=prefix) as store:
        store.put_many(PAGES)
    slots = {cluster_client.keyslot(f"{{{prefix}}}:{kind}") for kind in ("pages", "names", "lease", "commit")}
    assert len(slots) == 1
    with ValkeyStore(cluster_client, prefix=prefix) as store:
        assert dict(store.scan()) == PAGES
    assert cluster_client.ping(), "the caller's client stays open"


# ---- TLS: the server of these tests has none, so a proxy ends it ----


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    """The part of a URL that trusts the certificate of these tests."""
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    return f"?ssl_ca_certs={tmp_path / 'authority.pem'}"


@pytest.fixture
def tls(valkey_server: Any, authority: trustme.CA) -> Iterator[Callable[[str], str]]:
    proxy = Proxy(valkey_server.port, authority.issue_cert("localhost"))
    yield lambda host: f"{host}:{proxy.port}"
    proxy.close()


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_tls(tls: Callable[[str], str], trusted: str, prefix: str, scheme: str) -> None:
    url = f"{scheme}://{tls('localhost')}{trusted}"
    with ValkeyStore(url, prefix=prefix, timeout=5) as store:
        store.put_many(PAGES)
        assert dict(store.scan()) == PAGES


def test_a_certificate_is_checked(tls: Callable[[str], str], trusted: str, prefix: str) -> None:
    begin = time.monotonic()
    with pytest.raises(StoreError, match=r"rediss://localhost:\d+ is not trusted: .*certificate verify failed"):
        ValkeyStore(f"rediss://{tls('localhost')}", prefix=prefix, timeout=20)
    with pytest.raises(StoreError, match=r"rediss://127\.0\.0\.1:\d+ is not trusted: .*certificate is not valid for"):
        ValkeyStore(f"rediss://{tls('127.0.0.1')}{trusted}", prefix=prefix, timeout=20)
    assert time.monotonic() - begin < 15, "at once: to repeat it would not help"


def test_tls_without_a_server_that_has_it(valkey_server: Any, prefix: str) -> None:
    with pytest.raises(StoreError, match=r"rediss://127\.0\.0\.1:\d+"):
        ValkeyStore(f"rediss://127.0.0.1:{valkey_server.port}", prefix=prefix, timeout=1)
