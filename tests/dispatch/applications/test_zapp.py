"""ZApps of format 3 are imported; what Zoe could not run is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from dispatch.applications.application import Kind
from dispatch.applications.zapp import application_from_zapp
from planner.files.errors import FileError

SPARK: dict[str, Any] = {
    "name": "spark-als",
    "version": 3,
    "will_end": True,
    "size": 30,
    "services": [
        {
            "name": "worker",
            "image": "zapps/worker:17",
            "monitor": True,
            "total_count": 24,
            "essential_count": 3.0,
            "startup_order": 1,
            "environment": [["MASTER", "{dns_name#worker0}"]],
            "volumes": [],
            "ports": [
                {
                    "name": "web",
                    "port_number": 80,
                    "protocol": "tcp",
                    "url_template": "http://{ip_port}/",
                }
            ],
            "command": None,
            "resources": {
                "memory": {"min": 8 * 2**30, "max": None},
                "cores": {"min": 0.5, "max": 2},
                "shm": 1024,
            },
            "labels": ["ssd"],
        }
    ],
}


def test_a_partly_essential_service_becomes_a_core_and_an_elastic_component() -> None:
    """3 of 24 essential: 3 core, 21 elastic, alike in everything else."""
    application = application_from_zapp(SPARK)
    core, elastic = application.components
    assert (core.name, core.count, core.core) == ("worker", 3, True)
    assert (elastic.name, elastic.count, elastic.core) == ("worker-elastic", 21, False)
    assert core.resources == elastic.resources
    assert dict(core.resources) == {"cpu": 500, "memory": 8192}
    assert core.ports == ("web:80",)
    assert (application.kind, application.size_ms) == (Kind.BATCH, 30 * 60_000)


def test_variables_of_zoe_become_values_and_placeholders() -> None:
    """As its format strings have them: doubled braces are one."""
    zapp = copy.deepcopy(SPARK)
    text = (
        "{{{execution_name}}} {deployment_name}-{execution_id} of {user_name} at {dns_name#worker4}"
    )
    zapp["services"][0] |= {"environment": [["A", text]], "work_dir": "/mnt/workspace"}
    core, elastic = application_from_zapp(zapp).components
    assert core.environment == elastic.environment
    assert dict(core.environment)["A"] == (
        "{spark-als} agenda-{agenda#application} of {agenda#tenant} at {dns_name#worker4}"
    )
    assert core.directory == "/mnt/workspace"


def test_every_problem_of_a_zapp_is_reported() -> None:
    """Untagged image, essential above total, unknown variable, bad port, no monitor, odd key."""
    broken = copy.deepcopy(SPARK)
    service = broken["services"][0]
    service |= {"image": "reg:5000/worker", "essential_count": 25, "monitor": False, "sized": 1}
    service["environment"] = [["A", "{nobody}"], ["B"], ["C", "{dns_name#worker24}"]]
    service["ports"][0]["port_number"] = 70000
    service["volumes"] = [{"name": "data", "path": "/srv", "read_only": True}]
    service["resources"]["memory"]["min"] = 3
    with pytest.raises(FileError) as caught:
        application_from_zapp(broken)
    pointers = [problem.pointer for problem in caught.value.problems]
    at = "/services/0"
    assert sorted(set(pointers)) == sorted(
        {
            f"{at}/image",
            f"{at}/essential_count",
            f"{at}/sized",
            f"{at}/environment/0/1",
            f"{at}/environment/1",
            f"{at}/environment/2/1",
            f"{at}/ports/0/port_number",
            f"{at}/volumes",
            f"{at}/resources/memory/min",
            "/services",
        }
    )


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), 1e300])
def test_no_amount_breaks_the_reader(amount: float) -> None:
    """NaN, infinity and more than is plausible are problems with a pointer."""
    for kind in ("memory", "cores"):
        three = copy.deepcopy(SPARK)
        three["services"][0]["resources"][kind]["min"] = amount
        with pytest.raises(FileError) as caught:
            application_from_zapp(three)
        assert str(caught.value.pointer).startswith("/services")


def test_no_service_is_called_as_the_elastic_part_of_another() -> None:
    """`worker` has an elastic part, `worker-elastic` here: a second one of that name is refused."""
    twice = copy.deepcopy(SPARK)
    second = copy.deepcopy(twice["services"][0])
    twice["services"].append(second | {"name": "worker-elastic", "essential_count": 24})
    with pytest.raises(FileError, match="elastic part of another service") as caught:
        application_from_zapp(twice)
    assert caught.value.pointer == "/services/1/name"
    twice["services"][0]["essential_count"] = 24
    names = [component.name for component in application_from_zapp(twice).components]
    assert names == ["worker", "worker-elastic"]


@pytest.mark.parametrize("version", [1, 2, True, "3"])
def test_other_formats_are_refused(version: object) -> None:
    with pytest.raises(FileError, match="is not read") as caught:
        application_from_zapp(SPARK | {"version": version})
    assert caught.value.pointer == "/version"


#: The files of the collection that are refused, and the reason stated.
REFUSED = {
    "mag-google__b4b126a3": "tensorflow/magenta does not have a version tag",
    "stnet-google__a09d5cae": "tensorflow/syntaxnet does not have a version tag",
    "datasci-notebook__171d9720": "jupyter/datascience-notebook does not have a version tag",
    "r-notebook__83b2a561": "jupyter/r-notebook does not have a version tag",
    "scipy-notebook__f35dbe6d": "jupyter/scipy-notebook does not have a version tag",
}


@pytest.mark.traces
def test_every_collected_zapp_is_read_or_refused_for_a_stated_reason(traces: Path) -> None:
    """Of 38 real files 18 are of format 2; of the others 5 are refused for what Zoe would do."""
    files = sorted((traces / "zapps").glob("*.json"))
    assert len(files) == 38
    refused, old = {}, []
    for path in files:
        document = json.loads(path.read_text())
        try:
            assert application_from_zapp(document, path.name).core
        except FileError as error:
            if document["version"] == 3:
                refused[next(key for key in REFUSED if key in path.name)] = str(error)
            else:
                old.append(error.pointer)
    assert old == ["/version"] * 18
    assert refused.keys() == REFUSED.keys()
    assert all(reason in refused[key] for key, reason in REFUSED.items())


def test_two_links_to_one_port_are_one_port() -> None:
    """Names that would have one variable become those of numbers."""
    zapp = copy.deepcopy(SPARK)
    port = zapp["services"][0]["ports"][0]
    names = (("web page", 80), ("other page", 80), ("Data-Node", 90), ("data node", 91))
    zapp["services"][0]["ports"] = [port | {"name": n, "port_number": at} for n, at in names]
    core, *_ = application_from_zapp(zapp).components
    assert core.ports == ("web-page:80", "port-90:90", "port-91:91")
