"""Applications: read and written without loss, refused with every problem at once."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.applications.application import Application, Component, Kind
from dispatch.applications.document import (
    application_from_json,
    application_to_json,
    parse_document,
)
from dispatch.executions.states import (
    FINAL_EXECUTION_STATES,
    TRANSITIONS,
    ExecutionEvent,
    ExecutionState,
    TransitionError,
    after_component_failure,
    next_execution_state,
)
from planner.files.errors import FileError
from rdl.resources import Resources

_names = st.from_regex(r"[A-Za-z0-9@][A-Za-z0-9@_.\-]{0,12}", fullmatch=True)
_texts = st.text(min_size=1, max_size=12)


def _read_file(path: Path) -> Application:
    """Read an application as `agenda apps submit` and the service do, one after the other."""
    return application_from_json(parse_document(path.read_bytes(), str(path)), str(path))


@st.composite
def _components(draw: st.DrawFn, name: str, core: bool) -> Component:
    amounts = {"cpu": draw(st.integers(1, 64_000)), "memory": draw(st.integers(0, 10**6))}
    pairs = st.dictionaries(_texts, st.text(max_size=8), max_size=2)
    return Component(
        name=name,
        count=draw(st.integers(1, 50)),
        core=core,
        resources=Resources.of(amounts),
        command=draw(st.none() | _texts),
        image=draw(st.none() | _names),
        labels=draw(st.frozensets(_texts, max_size=2)),
        directory=draw(st.none() | st.just("/srv/etl")),
        timeout_ms=draw(st.none() | st.integers(1, 10**9)),
        success=tuple(sorted(draw(st.sets(st.integers(0, 255), min_size=1, max_size=4)))),
        environment=tuple(draw(pairs).items()),
        start_order=draw(st.integers(-5, 5)),
    )


@st.composite
def applications(draw: st.DrawFn) -> Application:
    """Any application the codec may meet."""
    names = draw(st.lists(_names, min_size=1, max_size=4, unique=True))
    parts = [
        draw(_components(name, index == 0 or draw(st.booleans())))
        for index, name in enumerate(names)
    ]
    reservation = draw(st.none() | _texts)
    return Application(
        name=draw(_names),
        components=tuple(parts),
        kind=draw(st.sampled_from(Kind)),
        priority=draw(st.integers(-9, 9)),
        size_ms=draw(st.none() | st.integers(1, 10**9)),
        reservation=reservation,
        atom=draw(st.none() | _texts) if reservation else None,
        job_class=draw(st.none() | _texts),
        restart=draw(st.booleans()),
        retries=draw(st.integers(0, 9)),
        backoff_ms=draw(st.integers(1, 10**7)),
    )


@given(applications())
def test_writing_and_reading_keeps_everything(application: Application) -> None:
    """from_json(to_json(a)) == a."""
    assert application_from_json(application_to_json(application)) == application


def test_every_problem_is_reported_at_once_with_its_pointer() -> None:
    """Each mistake of a document gives a problem, where it stands."""
    document = {
        "name": "no spaces",
        "kind": "bacth",
        "size": "-3",
        "prority": 1,
        "atom": "0",
        "components": [
            {"name": "a", "core": False, "resources": {"cpu": "1 GiB"}},
            {"name": "a", "core": "yes", "count": 0, "resources": {"cpu": 1}},
            {"name": "b", "resources": {"cpu": 1}, "core": True, "directory": "etl", "success": []},
        ],
        "backoff": "0s",
        "retries": -1,
    }
    with pytest.raises(FileError) as caught:
        application_from_json(document)
    assert {problem.pointer for problem in caught.value.problems} == {
        "/name",
        "/kind",
        "/size",
        "/prority",
        "/atom",
        "/components/0/resources",
        "/components/1/name",
        "/components/1/core",
        "/components/1/count",
        "/components/2/directory",
        "/components/2/success",
        "/backoff",
        "/retries",
    }
    assert "did you mean 'batch'?" in str(caught.value)


def test_an_application_needs_a_core_component() -> None:
    """With elastic components alone nothing says when it may start."""
    document = {"name": "a", "components": [{"name": "x", "core": False, "resources": {"cpu": 1}}]}
    with pytest.raises(FileError, match="no component is core"):
        application_from_json(document)


@pytest.mark.parametrize("amounts", [{}, {"cpu": 0}, {"cpu": 0, "memory": "0 GiB"}])
def test_a_component_asks_for_something(amounts: dict[str, object]) -> None:
    """One that asks for nothing would fit everywhere without end: refused, core or elastic."""
    core = {"name": "a", "core": True, "resources": {"cpu": 1}}
    free = {"name": "b", "core": False, "resources": amounts}
    for components in ([core, free], [{**free, "core": True}]):
        with pytest.raises(FileError, match="at least one resource") as caught:
            application_from_json({"name": "a", "components": components})
        assert caught.value.pointer == f"/components/{len(components) - 1}/resources"


def test_components_ask_for_no_more_than_is_plausible() -> None:
    """A million components of 2**40 MiB: told here, before sums overflow where it would run."""
    core = {"name": "a", "core": True, "resources": {"cpu": 1}}
    many = {"name": "b", "core": False, "count": 1_000_000, "resources": {"memory": 2**40}}
    with pytest.raises(FileError, match="more memory than is plausible"):
        application_from_json({"name": "a", "components": [core, many]})


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    """One application in both forms is equal, and a broken file names its line."""
    toml = tmp_path / "a.toml"
    toml.write_text(
        'name = "spark"\nsize = "2h"\n[[components]]\nname = "master"\ncore = true\n'
        'resources = {cpu = 1, memory = "2 GiB"}\n'
    )
    plain = tmp_path / "a.json"
    plain.write_text(
        '{"name": "spark", "size": 7200, "components": [{"name": "master", "core": true,'
        ' "resources": {"cpu": "1000m", "memory": 2048}}]}'
    )
    assert _read_file(toml) == _read_file(plain)
    plain.write_text('{"name":\n 1,,}')
    with pytest.raises(FileError, match="line 2: not JSON"):
        _read_file(plain)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "a", "name": "b"}', "'name' is given twice"),
        ('{"environment": {"A": "1", "B": "2", "A": "3"}}', "'A' is given twice"),
        ('{"size": NaN}', "NaN is not a number"),
    ],
)
def test_files_have_one_meaning(tmp_path: Path, text: str, said: str) -> None:
    """A key given twice would hide what its first value says; Python's NaN is no JSON."""
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(FileError, match=said):
        _read_file(file)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["name", "components", "size", "kind", "core", "resources", "count"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_no_document_breaks_the_reader(document: object) -> None:
    """Whatever is given is read or refused by FileError, never by another error."""
    with contextlib.suppress(FileError):
        assert application_from_json(document).core


def test_transitions_lead_from_every_state_to_an_end_and_nothing_leaves_an_end() -> None:
    """Every execution state reaches a final one; final ones have no way out."""
    ends = {
        state for state in ExecutionState if not any(before is state for before, _ in TRANSITIONS)
    }
    assert ends == FINAL_EXECUTION_STATES
    reached = set(ends)
    for _ in ExecutionState:
        reached |= {before for (before, _), after in TRANSITIONS.items() if after in reached}
    assert reached == set(ExecutionState)


def test_what_the_table_lacks_is_an_error() -> None:
    """An illegal pair names state and event; a legal one gives the state of the table."""
    for state, event in itertools.product(ExecutionState, ExecutionEvent):
        if (state, event) in TRANSITIONS:
            assert next_execution_state(state, event) is TRANSITIONS[state, event]
        else:
            with pytest.raises(TransitionError, match=state.value):
                next_execution_state(state, event)


def test_only_core_failures_reach_the_execution() -> None:
    """An elastic component's failure is nothing; a core one's fails or restarts."""
    assert after_component_failure(core=False, restart=True) is None
    assert after_component_failure(core=True, restart=False) is ExecutionEvent.CORE_FAILED
    restarted = after_component_failure(core=True, restart=True)
    assert restarted is ExecutionEvent.CORE_FAILED_RESTART
    assert next_execution_state(ExecutionState.RUNNING, restarted) is ExecutionState.QUEUED


def test_the_documented_example_is_read(tmp_path: Path) -> None:
    """The TOML of docs/dispatch.md is an application, so that no one copies a broken one."""
    text = (Path(__file__).parents[3] / "docs" / "dispatch.md").read_text()
    example = tmp_path / "example.toml"
    example.write_text(text.split("```toml\n")[1].split("```")[0])
    application = _read_file(example)
    assert application.size_ms == 40 * 60_000
    assert [component.count for component in application.elastic] == [32]


@pytest.mark.parametrize(
    ("more", "key", "message"),
    [
        ({"ports": ["a-b", "a_b"]}, "ports", "AGENDA_PORT_A_B"),
        ({"ports": ["http", "HTTP:80"]}, "ports", "AGENDA_PORT_HTTP"),
        ({"ports": ["http:80", "web:80"]}, "ports", "the number 80"),
        ({"ports": ["http:65536"]}, "ports", "no port"),
        ({"image": "--privileged"}, "image", "does not match"),
    ],
)
def test_ports_and_images_that_mean_something_else_are_refused(
    more: dict[str, object], key: str, message: str
) -> None:
    """Two ports have neither a variable nor a number in common; no image is an option."""
    core = {"name": "c", "core": True, "resources": {"cpu": 1}, "command": "true", **more}
    with pytest.raises(FileError, match=message) as caught:
        application_from_json({"name": "job", "components": [core]})
    assert caught.value.pointer == f"/components/0/{key}"
