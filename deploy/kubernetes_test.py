"""Run the commands of docs/deploy.md on a real cluster, and disturb rushes: make kubernetes-test.

On the cluster that kubectl reaches, whose nodes have the images, and in which no namespace flash-sale exists. In each
rush buyers retry with their Idempotency-Key while something is deleted, replaced or drained. Then all has to be sold,
each acknowledged order be in the ledger once, no buyer have two, and 95 % of the buyers be served. In the end, also
after a failure, the namespace is removed.

Exits with 0 if all was as expected, with 1 if not, and with 2, "no verdict", if too few buyers were served in time.
Arguments: the disturbances to try, if not all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STOCK, BUYERS, HOLD_MS = 300, 500, 50
RUSH_S = 300.0  # within which all buyers have an answer or give up
MOST_UNSERVED = 0.05  # of the buyers
OURS = "app.kubernetes.io/part-of=flash-sale,app.kubernetes.io/name notin (rush)"  # what a drain evicts
BEGAN = time.monotonic()


class TestError(Exception):
    """Something is not as expected."""


class NoVerdict(TestError):
    """Too few buyers were served to judge the sale."""


def say(text: str) -> None:
    """Tell what happens, with the seconds since the start."""
    print(f"kubernetes-test {time.monotonic() - BEGAN:5.0f} s  {text}", flush=True)


def kubectl(*words: str, text: str | None = None, timeout: float = 200) -> str:
    """What kubectl prints in our namespace; raises TestError."""
    command = ["kubectl", "--namespace", "flash-sale", *words]
    run = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, timeout=timeout)
    if run.returncode:
        raise TestError(f"kubectl {' '.join(words[:3])}: {run.stderr.strip()}")
    return run.stdout


def wait_for(what: str, look: Callable[[], bool], *, timeout: float) -> None:
    """Wait until `look` finds it, `timeout` seconds at most; an error of kubectl counts as not yet."""
    deadline, complaint = time.monotonic() + timeout, ""
    while time.monotonic() < deadline:
        try:
            if look():
                return
        except (TestError, ValueError, LookupError) as error:
            complaint = str(error)
        time.sleep(0.5)
    raise TestError(f"{what}: not within {timeout:g} s {complaint}".rstrip())


def documented(first_words: str) -> str:
    """The block of commands for Kubernetes in docs/deploy.md that begins with these words."""
    section = (ROOT / "docs/deploy.md").read_text(encoding="utf-8").split("\n## Kubernetes\n")[1].split("\n## ")[0]
    blocks: list[str] = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    (block,) = (each for each in blocks if each.startswith(first_words))
    return block


def run_documented(first_words: str) -> None:
    """Run such a block as a person would, each command after the one before has succeeded."""
    say(f"docs/deploy.md: {first_words} ...")
    if subprocess.run(["bash", "-euo", "pipefail", "-c", documented(first_words)], cwd=ROOT, timeout=900).returncode:
        raise TestError(f"a command of docs/deploy.md failed: see above ({first_words} ...)")


def wait_ready() -> None:
    """Wait until all workloads have all their pods."""
    for workload in ("statefulset/etcd", "statefulset/redis", "deployment/shop", "deployment/board"):
        kubectl("rollout", "status", workload, "--timeout", "3m")


# --- what happens in the middle of a rush -------------------------------------------------


def delete_member() -> None:
    """An etcd member that does not lead."""
    kubectl("delete", "pod", next(name for name in members() if name != leader()), "--wait=false")


def delete_leader() -> None:
    """The member that leads."""
    kubectl("delete", "pod", leader(), "--wait=false")


def delete_members() -> None:
    """All three: for some seconds there is no etcd."""
    kubectl("delete", "pod", *members(), "--wait=false")


def delete_redis() -> None:
    """Delete the only pod."""
    kubectl("delete", "pod", "redis-0", "--wait=false")


def delete_shop() -> None:
    """Delete one pod of four."""
    kubectl("delete", "pod", pods("shop")[0], "--wait=false")


def replace_shops() -> None:
    """Replace the pods one after the other, as an update does."""
    kubectl("rollout", "restart", "deployment/shop")


def drain_node() -> None:
    """The node of Redis, which its budget keeps there: the drain evicts what it may, and ends with its time-out."""
    node = kubectl("get", "pod", "redis-0", "-o", "jsonpath={.spec.nodeName}")
    try:
        kubectl(
            "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector={OURS}", "--timeout=20s"
        )
        raise TestError("the drain ended, although Redis' budget forbids it")
    except TestError as error:
        if "disruption budget" not in str(error):
            raise
    finally:
        kubectl("uncordon", node)


DISTURBANCES: dict[str, Callable[[], None]] = {
    "member": delete_member,
    "leader": delete_leader,
    "members": delete_members,
    "redis": delete_redis,
    "shop": delete_shop,
    "rollout": replace_shops,
    "drain": drain_node,
}


def pods(app: str) -> list[str]:
    """The names of the pods of a workload."""
    listed = kubectl("get", "pods", "-l", f"app.kubernetes.io/name={app}", "-o", "jsonpath={.items[*].metadata.name}")
    return sorted(listed.split())


def members() -> list[str]:
    """The pods of etcd."""
    return pods("etcd")


def leader() -> str:
    """The pod of etcd's leader."""
    statuses = json.loads(etcdctl("endpoint", "status", "--cluster", "--write-out", "json"))
    (endpoint,) = (
        each["Endpoint"] for each in statuses if each["Status"]["leader"] == each["Status"]["header"]["member_id"]
    )
    return str(endpoint.split("//")[-1].split(".")[0])


def etcdctl(*words: str) -> str:
    """What etcdctl prints in a member."""
    return kubectl("exec", "etcd-0", "--", "etcdctl", *words)


# --- a rush whose buyers retry ------------------------------------------------------------


def rush(disturb: Callable[[], None]) -> None:
    """Disturb the buyers when a tenth is sold, and demand that the sale was exact."""
    wait_ready()
    kubectl("delete", "job", "rush", "--ignore-not-found")
    kubectl("apply", "-f", "-", text=json.dumps(buyers_job()))
    wait_for("the sale is reset", lambda: '"reset"' in kubectl("logs", "job/rush"), timeout=60)
    wait_for("a tenth is sold", lambda: count_orders() >= STOCK // 10, timeout=60)
    if count_orders() >= STOCK // 2:
        raise NoVerdict("half was sold before the rush could be disturbed")
    disturb()
    kubectl("wait", "job/rush", "--for=condition=complete", f"--timeout={RUSH_S:g}s", timeout=RUSH_S + 60)
    wait_ready()
    served = [json.loads(line) for line in kubectl("logs", "job/rush").splitlines()]
    judge(STOCK, [each for each in served if "buyer" in each], ledger())
    wait_for("the queue in etcd is empty", lambda: not keys_of_queue(), timeout=30)


def buyers_job() -> dict[str, Any]:
    """The documented rush's job, but its program: buyers who retry."""
    documented_rush = json.loads(
        kubectl(
            "create", "--dry-run=client", "-o", "json", "-f", "-", text=kubectl("kustomize", "deploy/kubernetes/rush")
        )
    )
    (container,) = documented_rush["spec"]["template"]["spec"]["containers"]
    program = (ROOT / "deploy/retrying_buyers.py").read_text(encoding="utf-8")
    container["command"] = ["python", "-c", program, "http://shop:8080", str(STOCK), str(BUYERS), str(HOLD_MS)]
    return dict(documented_rush)


def ledger() -> list[dict[str, Any]]:
    """The orders, as Redis has them."""
    return [json.loads(line) for line in redis("lrange", "sale:{demo}:orders", "0", "-1").splitlines()]


def count_orders() -> int:
    """The number of orders in Redis."""
    return int(redis("llen", "sale:{demo}:orders"))


def redis(*words: str) -> str:
    """What redis-cli prints."""
    return kubectl("exec", "redis-0", "--", "redis-cli", "--raw", *words)


def keys_of_queue() -> str:
    """The keys of the lock's queue in etcd."""
    return etcdctl("get", "--prefix", "--keys-only", "flash-sale/").strip()


def judge(stock: int, served: Sequence[dict[str, Any]], ledger: Sequence[dict[str, Any]]) -> None:
    """Tell how many had to retry; raise TestError unless the sale was exact, NoVerdict if too few were served."""
    written = [entry["order"] for entry in ledger]
    outcomes = Counter(each["outcome"] for each in served)
    retried = sum(each["tries"] > 1 for each in served)
    say(f"{len(written)} of {stock} sold, {retried} of {len(served)} buyers had to retry: {dict(outcomes)}")
    if complaints := list(_complaints(stock, served, ledger)):
        raise TestError("; ".join(complaints))
    unserved = len(served) - outcomes["sold"] - outcomes["sold_out"]
    if unserved > MOST_UNSERVED * len(served):
        raise NoVerdict(f"{unserved} of {len(served)} buyers were not served")
    if len(written) < stock:
        raise TestError(f"{stock - len(written)} items were not sold")


def _complaints(stock: int, served: Sequence[dict[str, Any]], ledger: Sequence[dict[str, Any]]) -> Iterator[str]:
    written = [entry["order"] for entry in ledger]
    if len(written) > stock:
        yield f"{len(written) - stock} sold too many"
    if twice := len(written) - len(set(written)):
        yield f"{twice} orders are there twice"
    if twice := len(ledger) - len({entry["buyer"] for entry in ledger}):
        yield f"{twice} buyers bought twice"
    if missing := {each["order"] for each in served if each["outcome"] == "sold"} - set(written):
        yield f"{len(missing)} acknowledged orders are missing"


# --- the whole ----------------------------------------------------------------------------


def main(names: Sequence[str]) -> int:
    """Deploy, sell, disturb, remove; the exit code."""
    if unknown := set(names) - DISTURBANCES.keys():
        print(f"no disturbance is called {', '.join(sorted(unknown))}: {', '.join(DISTURBANCES)}", file=sys.stderr)
        return 2
    if has_namespace():
        print("namespace flash-sale exists: kubectl delete namespace flash-sale", file=sys.stderr)
        return 2
    try:
        run_documented("kubectl apply -f")
        run_documented("kubectl -n flash-sale delete job")
        kubectl("wait", "job/rush", "--for=condition=complete", "--timeout=1m")
        for name in names or DISTURBANCES:
            say(f"a rush, and in its middle: {name}")
            rush(DISTURBANCES[name])
        stop_shops()
    except TestError as error:
        code, word = (2, "no verdict") if isinstance(error, NoVerdict) else (1, "FAILED")
        say(f"{word}: {error}")
        return code
    finally:
        run_documented("kubectl delete namespace")
    if has_namespace():
        say("FAILED: the namespace is still there")
        return 1
    say("all as expected, and nothing is left")
    return 0


def has_namespace() -> bool:
    """Whether the cluster has our namespace; raises TestError if no cluster answers."""
    return bool(kubectl("get", "namespace", "flash-sale", "--ignore-not-found", "-o", "name", timeout=30).strip())


def stop_shops() -> None:
    """End all shops: they leave neither key nor lease."""
    kubectl("scale", "deployment/shop", "--replicas=0")
    wait_for("the shops end", lambda: not pods("shop"), timeout=60)
    if keys := keys_of_queue():
        raise TestError(f"keys are left in the queue: {keys}")
    if (leases := etcdctl("lease", "list").split()[:2]) != ["found", "0"]:
        raise TestError(f"leases are left: {' '.join(leases)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
