"""Deploy deploy/swarm.yml on a swarm, and break it in the middle of rushes: make swarm-test.

Run it on a manager of a swarm of three nodes or more, whose ports 8070 and 8080 are free. The steps, all of them if
none is named: deploy, leader (the node of etcd's leader dies), instances (a node with instances dies), update (the
image is replaced), remove. Buyers try again with their Idempotency-Key. After each rush all has to be sold, each
acknowledged order in the ledger once and no buyer twice, at most 5 % of the buyers without an answer, and the queue in
etcd empty. In the end, also of a step that fails, nothing of the stack is left: nodes that died are
started again, and stack, secret and labels removed. (Volumes of the other nodes are out of reach:
docker volume prune --all --filter label=com.docker.stack.namespace=sale-test-... removes them there.)

Exits with 0 if all was as expected, with 1 if not, and with 2, "no verdict", if something took too long while a process
of this machine got less than half of a CPU.

    KILL_NODE     ends the machine $NODE at once, such as 'ssh root@$NODE poweroff --force --force'
    REVIVE_NODE   starts it again, such as 'virsh start $NODE'
    LOAD_IMAGES   copies the images $IMAGES to all other nodes; without it, they are there already
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[1]
STACKS = "sale-test-"  # and some letters: volumes of an earlier run, which are left on other nodes, have other names
IMAGES = {"SHOP_IMAGE": "flash-sale:test", "LOCUST_IMAGE": "flash-sale-locust:test"}
NEXT_IMAGE = "flash-sale:test-next"
BOARD = "http://127.0.0.1:8070"
SHOP = "http://127.0.0.1:8080"  # the routing mesh: any instance on any node
INSTANCES, BUYERS, HOLD_MS = 4, 400, 100
LEASE_TTL_S = 15  # on a busy node a keepalive may be many seconds late
LABELS = {"redis": 0, "etcd-1": 0, "etcd-2": 1, "etcd-3": 2}  # and the number of the node that has it
ON_UPDATE = 150  # items: sold while two instances end, whose waiting buyers (100 each) have to try again
CLICK_S, AGAIN_S = 70, 1.0  # longer than an instance lets a buyer wait for the lock; before the next try
SERVED_S = 200.0  # after which a buyer tries no more
MOST_FAILED = 0.05  # of the buyers
LOOK_S = 0.5


def say(text: str) -> None:
    """Tell what happens, with the seconds since the start."""
    print(f"swarm-test {time.monotonic() - BEGAN:5.0f} s  {text}", flush=True)


class TestError(Exception):
    """Something is not as expected."""


class NoVerdict(TestError):
    """Something took too long on a machine that is too slow."""


class DockerError(TestError):
    """A command failed; the message is its complaint."""


class CpuShare(threading.Thread):
    """Measures how much of a CPU a process of this machine gets that would use all of it."""

    SPIN_S = 0.03

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._waited_s, self._spun_s = 0.0, 0.0

    def run(self) -> None:
        while True:
            began, end = time.monotonic(), time.thread_time() + self.SPIN_S
            while time.thread_time() < end:
                pass
            self._waited_s, self._spun_s = self._waited_s + time.monotonic() - began, self._spun_s + self.SPIN_S
            time.sleep(1)

    def measured(self) -> float:
        """From 0 to 1, on average since the start."""
        return self._spun_s / self._waited_s if self._waited_s else 1.0


CPU = CpuShare()


def too_late(what: str) -> TestError:
    """The error for something that came too late: a slow machine would be late as well as a wrong program."""
    if (share := CPU.measured()) < 0.5:
        return NoVerdict(f"{what}; a process gets {share:.0%} of a CPU: this machine is too slow")
    return TestError(what)


def docker(*words: str, text: str | None = None, env: dict[str, str] | None = None) -> str:
    """What docker prints; raises DockerError."""
    run = subprocess.run(
        ["docker", *words], input=text, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **(env or {})}
    )
    if run.returncode:
        raise DockerError(f"docker {words[0]}: {run.stderr.strip()}")
    return run.stdout


def rows(*words: str) -> list[dict[str, str]]:
    """The rows of a docker listing."""
    return [json.loads(line) for line in docker(*words, "--format", "{{json .}}").splitlines()]


def wait_for(what: str, look: Callable[[], T], timeout: float = 120) -> T:
    """What `look` finds, once it finds something; an error counts as nothing, and is told at the end."""
    end, told = time.monotonic() + timeout, ""
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except (OSError, ValueError, LookupError, DockerError) as error:
            told = str(error)
        time.sleep(LOOK_S)
    raise too_late(f"{what} did not happen within {timeout:g} s {told}".strip())


def demand(what: str, found: object, expected: object) -> None:
    """Fail unless both are equal."""
    if found != expected:
        raise TestError(f"{what}: {found!r} instead of {expected!r}")


def run_command(name: str, **variables: str) -> None:
    """Run the command that the variable `name` has."""
    if code := subprocess.run(os.environ[name], shell=True, env={**os.environ, **variables}).returncode:
        raise TestError(f"{name} with {variables} ended with {code}")


# --- the swarm ----------------------------------------------------------------------------


def nodes() -> list[str]:
    """Host names: this manager first."""
    here = docker("info", "--format", "{{.Name}}").strip()
    return [here, *sorted(row["Hostname"] for row in rows("node", "ls") if row["Hostname"] != here)]


@lru_cache
def stack() -> str:
    """The name of the stack that was deployed."""
    return next(row["Name"] for row in rows("stack", "ls") if row["Name"].startswith(STACKS))


def container(service: str) -> str:
    """The id of a service's running container on this node."""
    return docker("ps", "--quiet", "--filter", f"label=com.docker.swarm.service.name={stack()}_{service}").split()[0]


def is_settled() -> bool:
    """Whether each service has all its tasks, etcd its members, and the board sees all instances by their own names."""
    etcdctl("endpoint", "health", "--cluster")
    here, wanted = rows("service", "ls", "--filter", f"label=com.docker.stack.namespace={stack()}"), len(nodes())
    ready = [row["Name"] for row in here if row["Replicas"].split()[0].split("/")[0] == row["Replicas"].split("/")[-1]]
    names = {each["name"] for each in look_at_board()["instances"] if each["state"] == "up"}
    workers = locust("/worker-count")["worker_count"]
    return (len(here), len(ready), len(names), workers) == (8, 8, INSTANCES, wanted)


def look_at_board() -> Any:
    """What the board tells a viewer who comes now."""
    with urllib.request.urlopen(f"{BOARD}/events", timeout=10) as events:
        for line in events:
            if line.startswith(b"data: "):
                return json.loads(line[6:])
    raise ValueError("the board's stream ended")


def locust(path: str) -> Any:
    """What Locust's page has at `path`; it is asked inside its container."""
    script = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8089{path}', timeout=10).read().decode())"
    return json.loads(docker("exec", container("locust"), "python", "-c", script))


def etcdctl(*words: str) -> str:
    """What etcdctl prints, in the member on this node."""
    return docker("exec", container("etcd-1"), "etcdctl", *words)


# --- a rush -------------------------------------------------------------------------------


def orders() -> int:
    """How many are in the ledger, as the instances tell behind the routing mesh."""
    with urllib.request.urlopen(f"{SHOP}/stock", timeout=5) as answer:
        return int(json.load(answer)["orders"])


class Served(NamedTuple):
    """What a buyer has in the end: "sold", "sold_out", or the last refusal."""

    buyer: str
    outcome: str
    order: str
    tries: int


def buy(buyer: str, shop: str = SHOP, *, hold_ms: int = HOLD_MS) -> Served:
    """Buy, and try again with the same Idempotency-Key until served, as the buyers of labs/faults do."""
    end, tries = time.monotonic() + SERVED_S, 0
    while True:
        answer, tries = click(f"{shop}/stock/reduce?guard=etcd&hold_ms={hold_ms}&buyer={buyer}", buyer), tries + 1
        outcome = str(answer.get("outcome", "no answer"))
        if outcome in ("sold", "sold_out") or time.monotonic() > end:
            return Served(buyer, outcome, str(answer.get("order")), tries)
        time.sleep(AGAIN_S)


def click(url: str, key: str) -> dict[str, Any]:
    """The answer to one request; empty where there is none."""
    request = urllib.request.Request(url, headers={"Idempotency-Key": key}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=CLICK_S) as response:
            return dict(json.load(response))
    except urllib.error.HTTPError as refusal:
        with suppress(OSError, ValueError):
            return dict(json.load(refusal))
    except (OSError, ValueError, HTTPException):
        pass
    return {}


def ledger() -> list[dict[str, Any]]:
    """The orders, as Redis has them."""
    listed = docker("exec", container("redis"), "redis-cli", "--raw", "lrange", "sale:{demo}:orders", "0", "-1")
    return [json.loads(line) for line in listed.splitlines()]


def rush(stock: int, disturb: Callable[[], None]) -> None:
    """Let all buyers click at once, disturb them when a tenth is sold, and demand that the sale was exact."""
    wait_for("the stack settles", is_settled, timeout=180)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret()}"}
    reset = urllib.request.Request(f"{BOARD}/control/reset", json.dumps({"stock": stock}).encode(), headers)
    wait_for("the board resets the sale", partial(accepts, reset))
    began = time.monotonic()
    with ThreadPoolExecutor(BUYERS) as pool:
        buying = [pool.submit(buy, f"buyer-{number}") for number in range(BUYERS)]
        sold = wait_for("a tenth is sold", lambda: (sold := orders()) >= stock // 10 and sold < stock // 2 and sold)
        say(f"{sold} of {stock} sold")
        disturb()
        served = [each.result() for each in buying]
    say(f"all answered within {time.monotonic() - began:.0f} s")
    judge(stock, served, ledger())
    wait_for("the queue in etcd empties", lambda: not etcdctl("get", "--prefix", "--keys-only", "flash-sale/").strip())


def judge(stock: int, served: Sequence[Served], ledger: Sequence[dict[str, Any]]) -> None:
    """Tell how many had to try again; demand that all is sold, to nobody twice, and that 95 % were served."""
    written = [entry["order"] for entry in ledger]
    outcomes = Counter(each.outcome for each in served)
    retried = sum(each.tries > 1 for each in served)
    say(f"{len(written)} of {stock} sold, {retried} of {len(served)} buyers had to try again: {dict(outcomes)}")
    demand("orders that are there twice", len(written) - len(set(written)), 0)
    demand("buyers who bought twice", len(written) - len({entry["buyer"] for entry in ledger}), 0)
    bought = {each.order for each in served if each.outcome == "sold"}
    demand("acknowledged orders that are missing", sorted(bought - set(written)), [])
    failed = len(served) - outcomes["sold"] - outcomes["sold_out"]
    if failed > MOST_FAILED * len(served):
        raise too_late(f"{failed} of {len(served)} buyers were not served within {SERVED_S:g} s")
    demand("orders", len(written), stock)


def accepts(order: urllib.request.Request) -> bool:
    """Whether the board does it; raises TestError if it never will."""
    try:
        urllib.request.urlopen(order, timeout=10).close()
    except urllib.error.HTTPError as error:
        if error.code in (409, 503):  # a rush is running, or Redis does not answer yet
            raise
        raise TestError(f"the board answers {error.code} to {order.data!r}: {error.read()!r}") from error
    return True


def kill(node: str) -> None:
    """Let a machine die, while not all is sold."""
    say(f"{node} dies, with {', '.join(tasks_on(node))}")
    DEAD.add(node)
    run_command("KILL_NODE", NODE=node)
    wait_for("the swarm notices it", lambda: state_of(node) == "down")


def tasks_on(node: str) -> list[str]:
    """The stack's tasks that run there."""
    running = rows("node", "ps", node, "--filter", "desired-state=running")
    return sorted(row["Name"].split(".")[0] for row in running if row["Name"].startswith(f"{stack()}_"))


def state_of(node: str) -> str:
    """In the swarm's words: "ready" or "down"."""
    return docker("node", "inspect", node, "--format", "{{.Status.State}}").strip()


def revive(node: str) -> None:
    """Let it come back."""
    run_command("REVIVE_NODE", NODE=node)
    wait_for(f"{node} is back", lambda: state_of(node) == "ready")
    DEAD.discard(node)


# --- the steps ----------------------------------------------------------------------------


def deploy() -> None:
    """Build the images, say where data is kept, make the secret, and deploy."""
    docker("build", "--quiet", "--tag", IMAGES["SHOP_IMAGE"], ".")
    docker("build", "--quiet", "--tag", IMAGES["LOCUST_IMAGE"], "--target", "locust", ".")
    changed = f"FROM {IMAGES['SHOP_IMAGE']}\nENV FLASHSALE_UPDATED={secrets.token_hex(4)}\n"
    docker("build", "--quiet", "--tag", NEXT_IMAGE, "-", text=changed)
    if "LOAD_IMAGES" in os.environ:
        run_command("LOAD_IMAGES", IMAGES=" ".join([*IMAGES.values(), NEXT_IMAGE]))
    for label, number in LABELS.items():
        docker("node", "update", "--label-add", f"{label}=yes", nodes()[number])
    name = STACKS + secrets.token_hex(2)
    docker("secret", "create", f"{name}-admin-token", "-", text=secrets.token_hex(16))
    settings = {
        **IMAGES,
        "TOKEN_SECRET": f"{name}-admin-token",
        "INSTANCES": str(INSTANCES),
        "FLASHSALE_LOCK_TIMEOUT": "50",
        "FLASHSALE_LEASE_TTL": str(LEASE_TTL_S),
    }
    docker("stack", "deploy", "--resolve-image", "never", "-c", "deploy/swarm.yml", name, env=settings)
    wait_for("the stack settles", is_settled, timeout=240)
    say(f"deployed on {', '.join(nodes())}: {', '.join(sorted(each['name'] for each in look_at_board()['instances']))}")


def secret() -> str:
    """The admin token, which an earlier call of this script may have made."""
    return docker("exec", container("locust"), "cat", "/run/secrets/admin-token")


def kill_leader() -> None:
    """The node of etcd's leader dies; a leader on this manager hands over first."""
    told = json.loads(etcdctl("endpoint", "status", "--cluster", "--write-out", "json"))
    members = {each["Endpoint"].split("//")[-1].split(":")[0]: each["Status"] for each in told}
    (leader,) = (name for name, each in members.items() if each["leader"] == each["header"]["member_id"])
    if leader == "etcd-1":
        etcdctl("move-leader", f"{members['etcd-2']['header']['member_id']:x}")
        leader = "etcd-2"
    node = nodes()[int(leader[-1]) - 1]
    say(f"etcd's leader is {leader} on {node}")
    rush(100, partial(kill, node))
    revive(node)


def kill_instances() -> None:
    """The node with the most instances, but this one, dies."""
    wait_for("the stack settles", is_settled, timeout=180)
    node = max(nodes()[1:], key=lambda each: tasks_on(each).count(f"{stack()}_shop"))
    rush(100, partial(kill, node))
    revive(node)


def update() -> None:
    """The image of the shop is replaced, instance by instance; at least one has ended before all is sold."""
    rush(ON_UPDATE, _update)
    of_shop = "service", "inspect", f"{stack()}_shop", "--format"
    wait_for("the update ends", lambda: docker(*of_shop, "{{.UpdateStatus.State}}").strip() == "completed", timeout=180)
    running = rows("service", "ps", f"{stack()}_shop", "--no-trunc", "--filter", "desired-state=running")
    demand("images that run", {row["Image"] for row in running}, {NEXT_IMAGE})


def _update() -> None:
    docker("service", "update", "--detach", "--no-resolve-image", "--image", NEXT_IMAGE, f"{stack()}_shop")
    replaced = "service", "ps", f"{stack()}_shop", "--filter", "desired-state=shutdown"
    before = {row["ID"] for row in rows(*replaced)}
    wait_for("an old instance ends", lambda: {row["ID"] for row in rows(*replaced)} - before)
    sold = orders()
    say(f"the first old instance ends at {sold} sold")
    demand("whether it was in the middle of the rush", sold < ON_UPDATE, True)


def remove() -> None:
    """Take it down: the instances leave no key and no lease in etcd, and the stack nothing on this node."""
    docker("service", "scale", "--detach", f"{stack()}_shop=0")
    wait_for("the instances end", lambda: not [row for row in rows("service", "ps", f"{stack()}_shop") if is_up(row)])
    demand("leases in etcd", etcdctl("lease", "list").split()[:2], ["found", "0"])
    demand("keys of the queue", etcdctl("get", "--prefix", "--keys-only", "flash-sale/").strip(), "")
    clean_up()
    say("nothing is left: no lease, key, service, container, network or secret, and no volume on this node")


def clean_up() -> None:
    """Start nodes that died again, and remove everything of a stack of this test, as far as it came."""
    for node in sorted(DEAD):
        with suppress(TestError):
            revive(node)
    for name in named("stack"):
        docker("stack", "rm", name)
        mine = "--quiet", "--filter", f"label=com.docker.stack.namespace={name}"
        for kind in ("service", "container", "network"):
            every = ["--all"] if kind == "container" else []
            wait_for(f"no {kind} is left", partial(is_empty, kind, "ls", *every, *mine))
        if volumes := docker("volume", "ls", *mine).split():
            docker("volume", "rm", *volumes)
    for name in named("secret"):
        docker("secret", "rm", name)
    for label, number in LABELS.items():
        with suppress(DockerError):  # it was not set yet
            docker("node", "update", "--label-rm", label, nodes()[number])


def named(kind: str) -> list[str]:
    """The stacks or secrets of this test."""
    return [row["Name"] for row in rows(kind, "ls") if row["Name"].startswith(STACKS)]


def is_empty(*listing: str) -> bool:
    """Whether docker lists nothing."""
    return not docker(*listing).strip()


def is_up(task: dict[str, str]) -> bool:
    """Whether a task has not ended yet."""
    return task["CurrentState"].split()[0] in ("Running", "Starting", "Preparing")


STEPS = {"deploy": deploy, "leader": kill_leader, "instances": kill_instances, "update": update, "remove": remove}
BEGAN = time.monotonic()
DEAD = set[str]()  # nodes that were killed


def main(steps: list[str]) -> int:
    """Take the steps; the exit code."""
    try:
        for step in steps:
            STEPS[step]()
    except BaseException as error:
        code, word = (2, "no verdict") if isinstance(error, NoVerdict) else (1, "FAILED")
        say(f"{word}: {error or type(error).__name__}")
        clean_up()
        if isinstance(error, TestError):
            return code
        raise
    return 0


def interrupt(*_: object) -> None:
    """End as on Ctrl-C."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    for needed in ("KILL_NODE", "REVIVE_NODE"):
        if needed not in os.environ:
            raise SystemExit(f"swarm-test: set {needed} to a command that does it to the machine $NODE.\n\n{__doc__}")
    if len(nodes()) < 3:
        raise SystemExit(
            "swarm-test: needs a swarm of three nodes: docker swarm init, then docker swarm join on others"
        )
    if unknown := set(sys.argv[1:]) - STEPS.keys():
        raise SystemExit(f"swarm-test: no step is called {', '.join(sorted(unknown))}: {', '.join(STEPS)}")
    if "deploy" in (sys.argv[1:] or STEPS) and named("stack"):
        raise SystemExit("swarm-test: an earlier stack is deployed: make swarm-test ARGS=remove")
    signal.signal(signal.SIGTERM, interrupt)
    CPU.start()
    sys.exit(main(sys.argv[1:] or list(STEPS)))
