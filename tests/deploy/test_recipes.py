"""
The recipes for running tickwheel with systemd, Kubernetes and compose.
"""

from __future__ import annotations

import configparser
import ipaddress
import re
import shutil
import subprocess
import sys
from itertools import chain

import pytest

from tickwheel.cli import app
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.service import Service, ServiceOptions

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")


@pytest.fixture
def unit(deploy):
    """
    Return the text of the systemd unit in the recipe.
    """
    text = (deploy.parent / "docs" / "recipes.md").read_text("utf-8")
    return re.search(r"^```\n(\[Unit\]\n.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]


def test_the_unit_lets_handlers_end(unit):
    """
    The time that systemd waits for the service to end is longer than a stop may take.
    """
    parser = configparser.RawConfigParser(delimiters=("=",))
    parser.read_string(unit)
    assert float(parser["Service"]["TimeoutStopSec"]) > Scheduler.stop.__defaults__[0]
    assert parser["Service"]["ExecStart"].split()[1:] == ["manage.py", "tickwheel"]


def test_systemd_takes_the_unit(unit, tmp_path):
    """
    Systemd accepts the unit without complaint.
    """
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    copy = tmp_path / "shop.service"
    copy.write_text(unit.replace("/opt/shop/bin/python", sys.executable).replace("/opt/shop", str(tmp_path)), "utf-8")
    answer = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_kubernetes(deploy):
    """
    The probes in the Kubernetes manifest use paths that exist, and all its documents use the same names and ports.

    Kubernetes waits longer for a pod to end than a stop may take.
    """
    documents = {each["kind"]: each for each in yaml.safe_load_all((deploy / "kubernetes.yaml").read_text("utf-8"))}
    assert set(documents) == {"Deployment", "Service", "PodDisruptionBudget"}
    spec = documents["Deployment"]["spec"]
    labels, pod = spec["template"]["metadata"]["labels"], spec["template"]["spec"]
    (container,) = pod["containers"]
    selectors = [spec["selector"]["matchLabels"], documents["Service"]["spec"]["selector"]]
    selectors.append(documents["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"])
    assert selectors == [labels] * 3
    documented = Service(AsyncScheduler("memory://"), ServiceOptions()).document["paths"]
    probes = [container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")]
    assert [probe["path"] for probe in probes] == ["/healthz", "/readyz"]
    assert all("get" in documented[probe["path"]] for probe in probes)
    assert {probe["port"] for probe in probes} == {container["ports"][0]["name"]}
    port = documents["Service"]["spec"]["ports"][0]
    assert (port["targetPort"], container["ports"][0]["containerPort"], port["port"]) == ("http", 8765, 8765)
    assert pod["terminationGracePeriodSeconds"] > ServiceOptions().stop_timeout_s


def test_kubernetes_names_the_variable_for_the_store(deploy, capsys):
    """
    A comment in the manifest says that the secret must contain the variable TICKWHEEL_STORE.

    The help of `tickwheel serve` has the same variable.
    """
    assert app.run(["serve", "--help"]) == 0
    text = (deploy / "kubernetes.yaml").read_text("utf-8")
    assert "TICKWHEEL_STORE" in capsys.readouterr().out
    assert "TICKWHEEL_STORE" in text


def test_compose(deploy):
    """
    In the compose file, the image of a node can be built, and all variables are listed.

    Nginx finds the nodes and its certificate.
    """
    text = (deploy / "compose.yaml").read_text("utf-8")
    services = yaml.safe_load(text)["services"]
    nodes = {name: each for name, each in services.items() if "build" in each}
    assert services["nginx"]["depends_on"] == list(nodes)
    for node in nodes.values():
        assert (deploy / node["build"]["context"] / node["build"]["dockerfile"]).is_file()
        assert float(node["stop_grace_period"].removesuffix("s")) > ServiceOptions().stop_timeout_s
        assert "command" not in node  # nothing more than the environment
        assert set(node["environment"]) == {"TICKWHEEL_STORE", "TICKWHEEL_WRITE_TOKEN"}
        assert list(node["depends_on"]) == ["postgres"]
        store, database = node["environment"]["TICKWHEEL_STORE"], services["postgres"]["environment"]
        url = f"postgresql://{database['POSTGRES_USER']}:{database['POSTGRES_PASSWORD']}@postgres/"
        assert store == url + database["POSTGRES_DB"]
    for volume in services["nginx"]["volumes"]:
        source, inside, _ = volume.split(":")
        assert (deploy / source).is_file() or f" {inside}/tickwheel.crt;" in (deploy / "nginx.conf").read_text("utf-8")
    assert set(re.findall(r"\$\{(\w+)\}", text)) == set(re.findall(r"^#   (\w+)  ", text, re.MULTILINE))


def test_all_recipes_start_the_same_nodes():
    """
    The recipes for nginx, compose and Kubernetes start the same number of nodes at the same ports.

    They use the same command and variables as the nodes in `tests/service/test_proxy.py`.
    """
    import deployment  # noqa: PLC0415  it needs PyYAML

    pod = deployment.KUBERNETES["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    upstreams = deployment.UPSTREAM.findall(deployment.SITE)
    addresses = [node["networks"]["default"]["ipv4_address"] for node in deployment.NODES]
    assert [address for address, _ in upstreams] == addresses
    (network,) = deployment.COMPOSE["networks"]["default"]["ipam"]["config"]
    others = ipaddress.ip_network(network["ip_range"])
    assert others.subnet_of(ipaddress.ip_network(network["subnet"]))
    for each in map(ipaddress.ip_address, addresses):
        assert each in ipaddress.ip_network(network["subnet"])
        assert each not in others, "another container may have it"
    exposed = re.findall(r"^EXPOSE (\d+)$", deployment.CONTAINER, re.MULTILINE)
    assert exposed == [str(ServiceOptions().port)], "the command names no port"
    assert (
        {port for _, port in upstreams} == set(exposed) == {str(each["containerPort"]) for each in container["ports"]}
    )
    assert deployment.KUBERNETES["Deployment"]["spec"]["replicas"] == len(deployment.NODES) == len(upstreams)
    assert not {"command", "entrypoint", "args"} & {*container, *chain(*deployment.NODES)}, "the image has the command"
    values = {"TICKWHEEL_STORE": "postgresql://db/jobs", "TICKWHEEL_WRITE_TOKEN": "w" * 40}
    arguments, environment = deployment.node_start(values)
    assert environment == values
    secret = re.findall(r"--from-literal=(\w+)=", (deployment.FOLDER / "kubernetes.yaml").read_text("utf-8"))
    assert (set(secret), "env" in container) == (set(values), False)
    graces = {int(node["stop_grace_period"].removesuffix("s")) for node in deployment.NODES}
    assert graces == {pod["terminationGracePeriodSeconds"]}
    assert f"{container['livenessProbe']['httpGet']['path']}'," in deployment.CONTAINER, (
        "its health check asks the same"
    )
    said = (deployment.FOLDER.parent / "docs" / "production.md").read_text("utf-8")
    (command,) = re.findall(r"^tickwheel serve (.*)$", said, re.MULTILINE)
    assert [word for word in arguments if word not in command.split()] == []
