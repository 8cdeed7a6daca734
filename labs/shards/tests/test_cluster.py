"""All guards on a Redis Cluster; a node dies or freezes in the middle of a transfer, and the other shards go on."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from flask import Flask
from redis.crc import key_slot

from app import services
from app.contract.keys import key_prefix
from app.sales.purchase import Purchase
from app.sales.redis_client import Refused, connect
from app.sales.sale import Sale
from labs.shards.client import ClusterClient
from labs.shards.local_cluster import SLOTS, ClusterNode, RedisCluster
from labs.shards.nodes import FROZEN_S
from labs.shards.shards import ShardedStock
from labs.shards.state import state_of
from labs.shards.transfer import CREDIT, DEBIT
from tests.support.overtaking import overtaken
from tests.support.shops import WAYS, Answer, buy
from tests.support.waiting import wait_until

SHARDED = "etcd-sharded"
STEPS = {"debit": DEBIT.sha.encode(), "credit": CREDIT.sha.encode(), "settle": b"HDEL"}
Make = Callable[..., Flask]
FAULTS: dict[str, Callable[[ClusterNode], None]] = {"killed": ClusterNode.kill, "frozen": ClusterNode.pause}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """Three masters that have their data on disk."""
    with RedisCluster(tmp_path_factory.mktemp("cluster"), masters=3, appendonly=True) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def heal(cluster: RedisCluster) -> Iterator[None]:
    """All nodes run again, whatever a test did to them."""
    yield
    for node in cluster.members:
        revive(node)


def revive(node: ClusterNode) -> None:
    if node.running:
        node.resume()
    node.start()
    wait_until(node.is_ready)


@pytest.mark.parametrize("guard", WAYS)
def test_every_guard_sells_on_a_cluster(make: Make, cluster: RedisCluster, guard: str) -> None:
    """Purchase, retry, end of the stock, reset and probes: as on one Redis."""
    shop = make(redis_url=cluster.url, stock=2)
    browser = shop.test_client()
    answers = [buy(shop, guard, key=key) for key in ("a", "a", "b", "c")]
    assert [(answer["status"], answer["replayed"]) for answer in answers] == [
        *((200, None), (200, "true"), (200, None), (409, None))
    ]
    told = browser.get("/stock").get_json()
    assert (told["orders"], told["stock"], told["verdict"]) == (2, 0, "EXACT")
    assert browser.get("/readyz").status_code == 200
    browser.post("/stock/reset", json={"stock": 1})
    assert [buy(shop, guard)["status"] for _ in range(2)] == [200, 409]


def test_a_slot_that_has_moved_is_followed(cluster: RedisCluster) -> None:
    """Its commands are refused until the nodes are asked again, although the first one asked is down."""
    with connect(cluster.url, connections=2) as client:
        assert isinstance(client, ClusterClient)
        client.set("{moved}", "here")
        nodes: Any = client.nodes
        addresses = sorted({address for *_, address in nodes._owners})
        owner = nodes.pool_of(key_slot(b"moved")).connection_kwargs["port"]
        wrong = next(address for address in addresses if not address.endswith(f":{owner}"))
        nodes._owners, nodes._known = [(0, 16383, wrong)], ["127.0.0.1:1", *nodes._known]
        nodes._fresh_until = math.inf
        with pytest.raises(Refused, match="MOVED"):
            client.get("{moved}")
        nodes._fresh_until = 0.0
        assert client.get("{moved}") == "here"
        assert (len(nodes._owners), set(addresses) - set(nodes._known)) == (3, set())


def nodes_of(sale: str) -> list[int]:
    """The numbers of the nodes that have its treasury and its shards."""
    names = [sale, *(f"{sale}/{number}" for number in range(4))]
    return [key_slot(key_prefix(name).encode()) * 3 // SLOTS for name in names]


@pytest.fixture
def shops(make: Make, cluster: RedisCluster) -> tuple[Flask, Flask]:
    """Two instances; treasury and shard 0 are on the first node, shards 1 and 2 on the second, shard 3 on the third."""
    names = iter(lambda: uuid.uuid4().hex, None)
    name = next(name for name in names if nodes_of(name) == [0, 0, 1, 1, 2])
    one, two = (make(redis_url=cluster.url, sale=name, stock=80, instance=each) for each in ("shop-a", "shop-b"))
    return one, two


class Buyers:
    """New buyers of a shard, one at one instance and the next one at the other."""

    def __init__(self, *shops: Flask) -> None:
        self.shops = shops
        self.stock: ShardedStock = services.of(shops[0]).guards[SHARDED].stocks["1"]  # type: ignore[attr-defined]
        self.sale: Sale = services.of(shops[0]).sale
        self._count = 0

    def buy(self, shard: int, **query: Any) -> Answer:
        while True:
            self._count += 1
            purchase = Purchase(f"buyer-{self._count}", SHARDED)
            if self.stock.shard_of(purchase).number == shard:
                return buy(self.shops[self._count % 2], SHARDED, buyer=purchase.buyer, **query)

    def left(self, place: int) -> int:
        """Items in the treasury, which is place 0, or a shard."""
        slot = self.stock.places.slots[place]
        return int(slot.client.get(slot.stock) or 0)


@pytest.fixture
def buyers(shops: tuple[Flask, Flask]) -> Buyers:
    """Of a sale that both instances know, with items in all shards but the first and the last one."""
    buyers = Buyers(*shops)
    assert {buyers.buy(shard)["outcome"] for _ in range(4) for shard in range(4)} == {"sold"}
    for shard in (0, 3):
        while buyers.left(1 + shard):
            assert buyers.buy(shard)["outcome"] == "sold"
    return buyers


def steps_at(node: ClusterNode, patch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each step of a transfer that a node is asked for from now on."""
    asked, send = list[int](), redis.Connection.send_packed_command

    def note_and_send(connection: redis.Connection, command: Any, *args: Any, **options: Any) -> None:
        text = command if isinstance(command, bytes) else b"".join(command)
        if connection.port == node.port and any(marker in text for marker in STEPS.values()):
            asked.append(node.port)
        send(connection, command, *args, **options)  # type: ignore[no-untyped-call]

    patch.setattr(redis.Connection, "send_packed_command", note_and_send)
    return asked


@pytest.mark.parametrize(
    ("step", "number", "shard", "living", "fault"),
    [
        ("debit", 0, 3, [2, 3, 4], "killed"),
        ("debit", 0, 3, [2, 3, 4], "frozen"),
        ("credit", 2, 3, [0, 1, 2, 3], "killed"),
        ("credit", 2, 3, [0, 1, 2, 3], "frozen"),
        ("settle", 0, 3, [2, 3, 4], "killed"),
    ],
)
def test_the_others_go_on(
    cluster: RedisCluster,
    buyers: Buyers,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    number: int,
    shard: int,
    living: list[int],
    fault: str,
) -> None:
    """Items on living nodes are sold to their buyers; they hear "sold out" when the node is back and all is sold."""
    node, shards = cluster.members[number], [place - 1 for place in living if place]
    with overtaken(STEPS[step], lambda: FAULTS[fault](node)):
        first = buyers.buy(shard)
    assert first["outcome"] == ("unavailable" if 1 + shard not in living else "sold")
    items, began, asked = sum(buyers.left(place) for place in living), time.monotonic(), steps_at(node, monkeypatch)
    assert items >= 8
    assert [buyers.buy(shards[place % len(shards)])["outcome"] for place in range(items)] == ["sold"] * items
    if fault == "frozen":  # a node that is dead refuses at once
        assert len(asked) <= len(buyers.shops) * (1 + (time.monotonic() - began) / FROZEN_S)
    for each in range(4):
        refused = buyers.buy(each)
        # A frozen node that has the treasury, too, is asked for the generation first, and then for nothing more.
        in_doubt = fault == "frozen" and each not in shards and number != 0
        assert (refused["outcome"], refused["in_doubt"]) == ("unavailable", in_doubt)
    revive(node)
    # Some 40 items, one by one: a busy machine takes more than the usual patience.
    wait_until(lambda: {buyers.buy(each)["outcome"] for each in range(4)} == {"sold_out"}, timeout=90)
    now, state = buyers.sale.snapshot(), state_of(buyers.stock.places)
    assert (now.orders, now.stock, state.orders, state.unsold, state.in_transit) == (80, 0, 80, 0, 0)


def test_a_pipeline_goes_to_each_node(cluster: RedisCluster) -> None:
    """Its answers come in the order of its commands; what it watches is on one node, and is watched."""
    with connect(cluster.url, connections=2) as client:
        keys = [f"{{{number}}}" for number in range(8)]
        with client.pipeline(transaction=True) as pipe:
            for number, key in enumerate(keys):
                pipe.set(key, number)
                pipe.get(key)
            assert pipe.execute() == [answer for number in range(8) for answer in (True, str(number))]
        with client.pipeline() as pipe:
            pipe.watch(keys[3])
            client.set(keys[3], "other")
            pipe.multi()
            pipe.set(keys[3], "mine")
            with pytest.raises(redis.WatchError):
                pipe.execute()


def test_a_reset_while_a_node_is_down_is_followed(cluster: RedisCluster, buyers: Buyers) -> None:
    """The shards on living nodes open in the new sale; the others open when their node is back."""
    cluster.members[1].kill()
    buyers.sale.reset(8)
    assert buyers.buy(3)["outcome"] == "sold"
    assert buyers.buy(1)["outcome"] == "unavailable"
    revive(cluster.members[1])
    wait_until(lambda: buyers.buy(1)["outcome"] == "sold")
    wait_until(lambda: {buyers.buy(each)["outcome"] for each in range(4)} == {"sold_out"})
    assert (buyers.sale.snapshot().orders, state_of(buyers.stock.places).unsold) == (8, 0)
