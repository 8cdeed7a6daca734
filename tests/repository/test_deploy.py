"""What the Compose files and deploy/ describe, as far as it can be judged without Docker or a cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.board.settings import BoardSettings
from app.contract.access import is_known_host
from tests.support.shops import read_settings

ROOT = Path(__file__).parents[2]


def text_of(*files: Path) -> str:
    return "".join(file.read_text(encoding="utf-8") for file in files)


COMPOSE_FILES = [
    ROOT / "docker-compose.yml",
    *sorted(ROOT.glob("deploy/compose/*.yml")),
    *ROOT.glob("labs/*/compose.yml"),
]
COMPOSE = text_of(ROOT / "docker-compose.yml")
OBJECT_FILES = sorted(ROOT.glob("deploy/kubernetes/**/*.yaml"))
LISTED = [
    file.parent / name
    for file in sorted(ROOT.glob("deploy/**/kustomization.yaml"))
    for name in yaml.safe_load(file.read_text(encoding="utf-8"))["resources"]
    if name.endswith(".yaml")  # or else another kustomization
]
OBJECTS = [each for file in LISTED for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
PODS = {each["metadata"]["name"]: each["spec"]["template"] for each in OBJECTS if "template" in each.get("spec", {})}


@pytest.mark.parametrize("thing", OBJECTS, ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_kubernetes_knows_every_field(thing: dict[str, Any]) -> None:
    """Each object fits the schema of a current version; a field that is not in it is a mistake, too."""
    import kubernetes_validate  # slow, and every worker collects this file

    kubernetes_validate.validate(thing, "1.37", strict=True)


def test_each_file_belongs_to_a_kustomization() -> None:
    """No object is forgotten."""
    assert set(LISTED) == {file for file in OBJECT_FILES if file.name != "kustomization.yaml"}


def spec_of(kind: str, name: str) -> Any:
    (found,) = (each["spec"] for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def settings_of_kubernetes(name: str) -> dict[str, str]:
    """What the config map of a kustomization holds; that of the Ingress goes over that of the sale."""
    text = (ROOT / "deploy/kubernetes" / name / "kustomization.yaml").read_text(encoding="utf-8")
    (settings,) = yaml.safe_load(text)["configMapGenerator"]
    return dict(line.split("=", 1) for line in settings["literals"])


@pytest.mark.parametrize("name", ["shop", "board"])
def test_names_in_the_cluster_are_served(name: str) -> None:
    """A request for a service, however it is written, or for a host of the Ingress, is not refused."""
    sale, ingress = (settings_of_kubernetes(each) for each in ("sale", "ingress"))
    in_cluster = [name + space for space in ("", ".flash-sale", ".flash-sale.svc", ".flash-sale.svc.cluster.local")]
    (rule,) = spec_of("Ingress", name)["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": name, "port": {"name": spec_of("Service", name)["ports"][0]["name"]}}
    for settings, hosts in ((sale, in_cluster), (sale | ingress, [*in_cluster, rule["host"]])):
        board = read_settings(BoardSettings, settings)
        names = board.names if name == "board" else board.shop.names
        assert all(is_known_host(f"{each}:80", names) for each in hosts)


def test_selectors_find_pods() -> None:
    """Services, budgets and policies speak of labels that pods have, and workloads of their own."""
    apps = {pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in PODS.values()}
    text = text_of(*OBJECT_FILES)
    spoken = re.findall(r"(?:selector|matchLabels|labels): \{app.kubernetes.io/name: (\w+)\}", text)
    listed = re.findall(r"key: app.kubernetes.io/name, operator: In, values: \[([^]]*)\]", text)
    assert {*spoken, *", ".join(listed).split(", ")} == apps == {"etcd", "redis", "shop", "board", "rush"}


def test_a_stop_is_long_enough_to_drain() -> None:
    """gunicorn finishes its purchases and gives the lease back before it is killed."""
    (drains,) = re.findall(r"^graceful_timeout = (\d+)", (ROOT / "app/gunicorn.conf.py").read_text("utf-8"), re.M)
    shop = PODS["shop"]["spec"]
    (container,) = shop["containers"]
    sleeps = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert shop["terminationGracePeriodSeconds"] - sleeps >= int(drains) + 2
    (grace,) = re.findall(r"^ *stop_grace_period: (\d+)s", COMPOSE, re.MULTILINE)
    assert int(grace) >= int(drains) + 2


def test_settings_are_documented_and_no_token_is_public() -> None:
    """Each variable is one of docs/settings.md; the admin token has no default."""
    text = text_of(*OBJECT_FILES)
    known = re.findall(r"`(FLASHSALE_\w+)`", (ROOT / "docs/settings.md").read_text(encoding="utf-8"))
    assert set(re.findall(r"FLASHSALE_[A-Z_]*[A-Z]", text)) <= set(known)
    assert not re.search(r"workshop|ADMIN_TOKEN:? *[=:] *\S*:-", text)


def test_images_are_pinned_and_the_servers_the_same() -> None:
    """Every image that is not built here has a version, never `latest`.

    There is one version of etcd and one of Redis, wherever the sale runs.
    """
    for file in [*COMPOSE_FILES, ROOT / "Dockerfile"]:
        text = text_of(file)
        stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE))
        for image in re.findall(r"^(?: *image:|FROM) (\S+)", text, re.MULTILINE):
            ours = image in stages or image.startswith(("${SHOP_IMAGE:-", "${LOCUST_IMAGE:-"))
            assert ours or re.search(r":v?\d+\.\d+[\w.-]*$", image), (file.name, image)
    servers = r"(?:^|\s)image: (\S*(?:/etcd|redis):\S+)"
    for files in (OBJECT_FILES, [file for file in COMPOSE_FILES if "image:" in text_of(file)]):
        assert set(re.findall(servers, text_of(*files))) == set(re.findall(servers, COMPOSE))


def test_compose_knows_its_names_and_opens_no_port_to_the_network() -> None:
    """Each name of an instance or the board in a URL is among FLASHSALE_NAMES; no port is 5000, AirPlay's on macOS."""
    (names,) = re.findall(r"^ *FLASHSALE_NAMES: (\S+)$", COMPOSE, re.MULTILINE)
    asked = {host for host in re.findall(r"http://([a-z][a-z0-9-]*):\d+", COMPOSE) if host not in ("etcd", "locust")}
    assert asked
    assert asked <= set(names.split(","))
    published = re.findall(r'ports: \["([^"]+)"\]', COMPOSE)
    assert published
    for port in published:
        assert port.startswith("127.0.0.1:")
        assert "5000" not in port


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "program"),
    [
        ("shop", "import app, app.board; app.create_app(); app.board.create_board()"),
        ("locust", "import loadtest.locustfile"),
    ],
)
def test_an_image_has_all_code_that_it_runs(tmp_path: Path, stage: str, program: str) -> None:
    """With only the folders that the Dockerfile copies into it, shop and board are made, and Locust reads its file."""
    [stage_text] = re.findall(
        rf"^FROM python AS {stage}\n(.*?)(?=^FROM |\Z)", text_of(ROOT / "Dockerfile"), re.DOTALL | re.MULTILINE
    )
    for source, target in re.findall(r"^COPY (?!--)(\S+) (\S+)$", stage_text, re.MULTILINE):
        for path in ROOT.glob(source):
            if path.is_dir():
                shutil.copytree(path, tmp_path / target, ignore=shutil.ignore_patterns("tests", "__pycache__"))
            else:  # a file into a folder
                (tmp_path / target).mkdir(exist_ok=True)
                shutil.copy(path, tmp_path / target)
    env = {**os.environ, "PYTHONPATH": ""}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
