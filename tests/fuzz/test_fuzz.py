"""A few rounds of the fuzzer with fixed seeds, and tests that it reports crashes, silence and wrong errors."""

import sys
from pathlib import Path
from random import Random
from time import monotonic

import pytest

import sash
from sash.stores import PageError, codec
from sash.stores.envelope import unwrap
from tests.fuzz import exercise, supervise
from tests.fuzz.corpus import SCHEMA, Subject, states, steps, subject
from tests.fuzz.envelopes import State, unwrapped
from tests.fuzz.mutate import mutated
from tests.interpreted import SWITCHED_OFF
from tests.shared.effort import THOROUGH
from tests.shared.streams import Case

ROOT = Path(__file__).parents[2]
SAYS = "import sys, time, os, signal; print('prepare 7', flush=True); print('try 7 3', flush=True); "


def supervised(command: list[str], folder: Path, limit: float = 600.0) -> supervise.Counts:
    counts, _ = supervise.supervise(command, folder, monotonic() + 3600, (limit, limit))
    return counts


def test_changed_states_are_refused_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name, value in SWITCHED_OFF.items():
        monkeypatch.setenv(name, value)
    own = [sys.executable, "-m", "tests.fuzz", "--seed", "1", "--folder", str(tmp_path)]
    rounds, states = (3, 60) if THOROUGH else (1, 20)
    counts = supervised([*own, "--rounds", "0", str(rounds), str(states)], tmp_path)
    assert counts.failures == []
    assert counts.states == states * rounds
    assert 0 < counts.refused < counts.states


def test_a_crash_is_a_failure_with_its_file(tmp_path: Path) -> None:
    (tmp_path / supervise.CURRENT).write_bytes(b"the state")
    counts = supervised([sys.executable, "-c", SAYS + "os.kill(os.getpid(), signal.SIGKILL)"], tmp_path)
    assert counts.states == 1
    assert counts.failures == ["the process ended with -9 at try 7 3"]
    assert (tmp_path / "7-3.case").read_bytes() == b"the state"


def test_silence_is_a_failure(tmp_path: Path) -> None:
    counts = supervised([sys.executable, "-c", SAYS + "time.sleep(3600)"], tmp_path, limit=2.0)
    assert counts.failures == ["nothing came for 2 s at try 7 3"]


def a_subject() -> tuple[Subject, list[tuple[State, bool]]]:
    query = sash.Query(sash.Count(3), by="k", on="t", lateness=5, all=sash.collect("i"))
    of = Subject(Case(query, SCHEMA, "rows", steps(query, "rows", Random(5))), 3, 4)
    return of, states(of)


def test_changed_pages_have_checksums_that_fit() -> None:
    """Most changed pages have a matching checksum, so that other checks must find the change."""
    _, made = a_subject()
    rng, fit, of_all = Random(3), 0, 0
    for _ in range(200):
        state, _ = rng.choice(made)
        for page in mutated(state, [other for other, _ in made], rng).pages.values():
            of_all += 1
            try:
                envelope = unwrapped(page)
                unwrap(page, envelope.kind, envelope.fingerprint, "page")
            except Exception:
                continue
            fit += 1
    assert fit > 0.8 * of_all


def test_errors_that_nobody_has_raised_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    of, made = a_subject()
    state, is_snapshot = made[0]
    assert exercise.exercise(of, state, is_snapshot) == exercise.RAN
    for error in (KeyError("k"), MemoryError(), RecursionError(), ValueError("of somebody else")):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(sash.engine.operator.Operator, "finish", fail)
        with pytest.raises(exercise.Failure, match="finish: "):
            exercise.exercise(of, state, is_snapshot)


def test_a_page_error_that_names_no_page_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    of, made = a_subject()

    def fail(*_: object, **__: object) -> None:
        raise PageError("something is wrong")

    monkeypatch.setattr(sash.engine.operator.Operator, "restore", fail)
    with pytest.raises(exercise.Failure, match="names no page"):
        exercise.exercise(of, made[0][0], True)


def test_a_file_can_be_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, is_snapshot = states(subject(0, Random("1/0")))[0]
    broken = State(dict.fromkeys(state.pages, b""), state.schema, state.mode, state.fingerprint)
    for tried, said in ((state, exercise.RAN), (broken, exercise.REFUSED)):
        whole = (tried.pages, tried.schema, tried.mode, tried.fingerprint)
        (tmp_path / "one.case").write_bytes(codec.dumps((1, 0, 0, whole, is_snapshot)))
        supervise.replay(tmp_path / "one.case")
        assert capsys.readouterr().out.splitlines()[-1] == said
