"""Guards as people write them who do not know how schedules are tried; each promises to be exact.

`WRONG` and `RIGHT` have their classes by name. What they share is in `Strange`: a lock in Redis by `SET NX`, which the
right ones hold around the read and the write.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import random
import re
import secrets
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from mmap import mmap
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import hiredis
import redis
import redis.asyncio

from app.contract.outcomes import Outcome
from app.guards.base import Guard, Parts, Promise
from app.sales.purchase import Purchase, Receipt, Section
from lock import Created, LockLost, LockTimeout

RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
GATEWAY = base64.b64encode(b"gateway").decode()
LIFE_MS = 60_000


class Strange(Guard):
    """What they share."""

    promise = Promise.EXACT_UNTIL_PAUSED
    description = "A guard."

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self.redis: Any = shop.sale.client
        self.key = f"{shop.sale.keys.prefix}strange"

    def value(self) -> str:
        """What the lock holds."""
        return uuid.uuid4().hex

    def takes(self, value: str) -> Any:
        """Try to take the lock; whether it is held then."""
        return self.redis.set(self.key, value, nx=True, px=LIFE_MS)

    def pause(self) -> None:
        time.sleep(0.02)

    def gives_back(self, value: str) -> None:
        self.redis.eval(RELEASE, 1, self.key, value)

    @contextmanager
    def held(self, purchase: Purchase) -> Iterator[None]:
        """Hold the lock."""
        value = self.value()
        while not self.takes(value):
            self.pause()
        try:
            yield
        finally:
            self.gives_back(value)

    def buy(self, purchase: Purchase) -> Receipt:
        with self.held(purchase):
            return self.sell(purchase)

    def sell(self, purchase: Purchase) -> Receipt:
        """Read, then write what was read less one."""
        with purchase.critical_section() as section:
            return self.read_and_write(section)

    def read_and_write(self, section: Section) -> Receipt:
        stock = self.stock(section.purchase.item)
        reading = stock.read(section)
        return reading.receipt or stock.write(section, reading)

    def writes(self, purchase: Purchase, left: int) -> list[tuple[str, ...]]:
        """The same by hand: commands for one item of these; none if none is left."""
        keys = self.shop.sale.keys
        sells = [("SET", keys.stock, str(left - 1)), ("INCR", keys.lucky), ("RPUSH", keys.orders, purchase.entry())]
        return sells if left > 0 else []

    def receipt(self, purchase: Purchase, left: int) -> Receipt:
        """What the buyer is told then."""
        if left <= 0:
            return Receipt(Outcome.SOLD_OUT, self.name, stock=0)
        return Receipt(Outcome.SOLD, self.name, order=purchase.order, stock=left - 1)


# What is sent by another thread, client or program


class Pooled(Strange):
    """No lock, in a thread of a pool."""

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self.pool = ThreadPoolExecutor(2)

    def buy(self, purchase: Purchase) -> Receipt:
        return self.pool.submit(self.sell, purchase).result()


class PooledLocked(Pooled):
    """The same with the lock."""

    value = staticmethod(lambda: secrets.token_urlsafe(12))

    def buy(self, purchase: Purchase) -> Receipt:
        return self.pool.submit(super(Pooled, self).buy, purchase).result(timeout=10)


class Tasks(Strange):
    """asyncio in a thread beside the purchase, without a lock."""

    locks: ClassVar[bool] = False

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def buy(self, purchase: Purchase) -> Receipt:
        return asyncio.run_coroutine_threadsafe(self.sold(purchase), self.loop).result()

    async def sold(self, purchase: Purchase) -> Receipt:
        async with redis.asyncio.Redis.from_url(self.shop.settings.redis_url, decode_responses=True) as client:
            value = self.value()
            while self.locks and not await client.set(self.key, value, nx=True, px=LIFE_MS):
                await asyncio.sleep(0.05)
            try:
                left = int(await client.get(self.shop.sale.keys.stock) or 0)
                for words in self.writes(purchase, left):
                    await client.execute_command(*words)  # type: ignore[no-untyped-call]
                return self.receipt(purchase, left)
            finally:
                if self.locks:
                    await client.eval(RELEASE, 1, self.key, value)


class TasksLocked(Tasks):
    """The same with the lock."""

    locks = True


class OwnSocket(Strange):
    """A client of its own, without a lock."""

    def ask(self, *words: str) -> str | None:
        url = urlsplit(self.shop.settings.redis_url)
        with socket.create_connection((url.hostname, url.port or 6379)) as sock, sock.makefile("rwb") as stream:
            stream.write(hiredis.pack_command(words))  # type: ignore[arg-type]
            stream.flush()
            line = stream.readline()
            if line[:1] != b"$":
                return line[1:-2].decode()
            return stream.read(int(line[1:]) + 2)[:-2].decode() if line != b"$-1\r\n" else None

    def buy(self, purchase: Purchase) -> Receipt:
        with purchase.critical_section():
            left = int(self.ask("GET", self.shop.sale.keys.stock) or 0)
            for words in self.writes(purchase, left):
                self.ask(*words)
            return self.receipt(purchase, left)


class Gateway(Strange):
    """A lock in etcd by HTTP: looks first, and puts then."""

    def post(self, path: str, **body: Any) -> Any:
        url = f"http://{self.shop.settings.etcd_endpoints}/v3/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())) as response:
            return json.load(response)

    def takes(self, value: str) -> Any:
        return "kvs" not in self.post("kv/range", key=GATEWAY) and self.post("kv/put", key=GATEWAY)

    def gives_back(self, value: str) -> None:
        self.post("kv/deleterange", key=GATEWAY)


class GatewayLocked(Gateway):
    """The same in one transaction."""

    name = "gateway-locked"

    def takes(self, value: str) -> Any:
        is_new, put = {"key": GATEWAY, "target": "CREATE", "createRevision": "0"}, {"requestPut": {"key": GATEWAY}}
        return self.post("kv/txn", compare=[is_new], success=[put]).get("succeeded")


class AnotherProgram(Strange):
    """A lock that another program takes: it cannot be stopped."""

    def takes(self, value: str) -> bool:
        return subprocess.run(["mkdir", "strange-guard"], capture_output=True, check=False).returncode == 0

    def gives_back(self, value: str) -> None:
        subprocess.run(["rmdir", "strange-guard"], check=True)


class SharedByte(Strange):
    """A byte of memory that both instances have, after a look: it cannot be stopped."""

    def value(self) -> str:
        with Path("shared-byte").open("ab+") as file:
            file.truncate(1)
            self.memory = mmap(file.fileno(), 1)
        return "1"

    def takes(self, value: str) -> bool:
        is_free = not self.memory[0]
        self.memory[0] = 1
        return is_free

    def gives_back(self, value: str) -> None:
        self.memory[0] = 0


class BindsPort(Strange):
    """Whoever binds an address has the lock: that cannot be stopped, and leaves no trace that is seen."""

    def takes(self, value: str) -> bool:
        self.taken = socket.socket()
        with suppress(OSError):
            self.taken.bind((f"127.0.0.{os.getppid() % 250 + 2}", 47811))
            return True
        return False

    def gives_back(self, value: str) -> None:
        self.taken.close()


class EndsItsProcess(Strange):
    """With the second attempt."""

    def pause(self) -> None:
        os._exit(0)


class WritesLater(Strange):
    """Answers at once, and writes in a thread behind the answer, without the lock."""

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        with self.held(purchase), purchase.critical_section() as section:
            reading = stock.read(section)
        if reading.receipt:
            return reading.receipt
        threading.Thread(target=stock.write, args=(section, reading)).start()
        return self.receipt(purchase, 1)


class ReleasesLater(Strange):
    """Right: a thread behind the answer releases the lock."""

    def gives_back(self, value: str) -> None:
        threading.Thread(target=super().gives_back, args=(value,)).start()


# What one item, or one judgement of a state, would hide


class Halves(Strange):
    """Each instance has half of the items, and says "sold out" where the other one has some."""

    def buy(self, purchase: Purchase) -> Receipt:
        mine = f"{self.key}:{purchase.instance}"
        with self.held(purchase), purchase.critical_section() as section:
            initial = int(self.redis.get(self.shop.sale.keys.initial))
            if self.redis.incr(mine) > (initial + (purchase.buyer == "A")) // 2:
                return self.receipt(purchase, 0)
            return self.stock(purchase.item).sell(section)


class TokenBefore(Strange):
    """The token is taken before the lock: with a later one, an earlier holder is refused, and its item is lost."""

    def buy(self, purchase: Purchase) -> Receipt:
        token = self.redis.incr(f"{self.key}:tokens")
        with self.held(purchase), purchase.critical_section() as section:
            if token < int(self.redis.get(f"{self.key}:highest") or 0):
                return self.receipt(purchase, 0)
            self.redis.set(f"{self.key}:highest", token)
            return self.read_and_write(section)


# What is no answer


class SaysText(Strange):
    """Returns what is no receipt where the item is sold out."""

    def buy(self, purchase: Purchase) -> Receipt:
        receipt = super().buy(purchase)
        return receipt if receipt.outcome is Outcome.SOLD else "sold out"  # type: ignore[return-value]


class RaisesForTheSecond(Strange):
    """Raises where the item is sold out."""

    def buy(self, purchase: Purchase) -> Receipt:
        receipt = super().buy(purchase)
        if receipt.outcome is Outcome.SOLD_OUT:
            raise RuntimeError("sold out")
        return receipt


class SaysSold(Strange):
    """Says "sold" and sells nothing."""

    def buy(self, purchase: Purchase) -> Receipt:
        with purchase.critical_section():
            return self.receipt(purchase, 1)


class RetriesThenEnters(Strange):
    """Goes in after ten tries, with the lock or without it."""

    @contextmanager
    def held(self, purchase: Purchase) -> Iterator[None]:
        for _ in range(10):
            if self.redis.set(self.key, purchase.order, nx=True, px=LIFE_MS):
                break
            self.pause()
        yield
        self.redis.eval(RELEASE, 1, self.key, purchase.order)


class BreaksIn(Strange):
    """The third try takes the lock away from whoever has it."""

    def value(self) -> str:
        self.tries = 0
        return super().value()

    def takes(self, value: str) -> Any:
        return self.redis.hsetnx(self.key, "owner", value)

    def pause(self) -> None:
        self.tries = (self.tries + 1) % 3
        if not self.tries:
            self.gives_back("")
        super().pause()

    def gives_back(self, value: str) -> None:
        self.redis.delete(self.key)


class SellsTwo(Strange):
    """Makes the purchase twice."""

    def buy(self, purchase: Purchase) -> Receipt:
        with self.held(purchase):
            self.sell(purchase)
            return self.sell(purchase)


class TwoKeysCrossed(Strange):
    """Two locks, which the instances take in different orders."""

    def buy(self, purchase: Purchase) -> Receipt:
        keys = [f"{self.key}:{name}" for name in sorted("ab", reverse=purchase.buyer == "B")]
        for key in keys:
            while not self.redis.set(key, purchase.order, nx=True):
                self.pause()
        receipt = self.sell(purchase)
        self.redis.delete(*keys)
        return receipt


# What chance and time make, and right it is


class SmallNumber(Strange):
    value = staticmethod(lambda: str(random.randrange(1000, 2000)))


class ThroughPipe(Strange):
    """What it writes to a pipe is nothing that purchases share."""

    def value(self) -> str:
        reading, writing = os.pipe()
        os.write(writing, uuid.uuid4().bytes)
        value = os.read(reading, 16).hex()
        os.close(reading)
        os.close(writing)
        return value


class ThreadAndTime(Strange):
    value = staticmethod(
        lambda: (
            f"{threading.get_ident()} {threading.get_native_id()} {time.time()} {time.time_ns()} {datetime.now()}"
            f" {uuid.uuid1()} {time.ctime()} {time.strftime('%X')} {time.localtime().tm_sec}"
        )
    )


class OwnGenerator(Strange):
    """Each try has another value, of a generator of its own."""

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self.random = random.Random()

    def takes(self, value: str) -> Any:
        self.last = f"{self.random.random()}{random.random()}"
        return self.redis.set(self.key, self.last, nx=True, px=9)

    def pause(self) -> None:
        time.sleep(self.random.uniform(0.001, 0.01))

    def gives_back(self, value: str) -> None:
        super().gives_back(self.last)


class OwnLock(Strange):
    """redis-py's lock, by a client of its own for each purchase, with the protocol of now."""

    @contextmanager
    def held(self, purchase: Purchase) -> Iterator[None]:
        with (
            redis.Redis.from_url(self.shop.settings.redis_url, protocol=3) as client,
            client.lock(self.key, timeout=60, sleep=0.01),
        ):
            yield


class FlockBlocking(Strange):
    """A file in the temporary folder; the system wakes the next."""

    @contextmanager
    def held(self, purchase: Purchase) -> Iterator[None]:
        with (Path(tempfile.gettempdir()) / "strange-guard.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class LockfCounted(Strange):
    """A file at a fixed path that is polled for, read and written under the lock, and unlocked."""

    def takes(self, value: str) -> bool:
        self.file = open("/tmp/strange-guard.count", "a+")  # noqa: PTH123, SIM115
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.file.seek(0)
        holders = int(self.file.read() or 0)
        self.file.truncate(0)
        return bool(self.file.write(str(holders + 1)))

    def gives_back(self, value: str) -> None:
        self.file.flush()
        fcntl.lockf(self.file, fcntl.LOCK_UN)


class FolderLock(Strange):
    """A folder in the working folder, and pauses by an event that is never set."""

    def takes(self, value: str) -> bool:
        with suppress(FileExistsError):
            Path("strange-guard").mkdir()
            return True
        return False

    def pause(self) -> None:
        threading.Event().wait(0.01)

    def gives_back(self, value: str) -> None:
        Path("strange-guard").rmdir()


class FileLooked(Strange):
    """Wrong: a file, after a look."""

    path = Path("/tmp/strange-guard.pid")

    def takes(self, value: str) -> bool:
        return not self.path.exists() and bool(self.path.write_text(value))

    def gives_back(self, value: str) -> None:
        self.path.unlink()


class FileReadAndWritten(Strange):
    """Wrong: a file that is open once, read, and written if it is empty."""

    path = Path("/tmp/strange-guard.owner")

    def takes(self, value: str) -> bool:
        with self.path.open("a+") as file:
            file.seek(0)
            return not file.read() and bool(file.write(value))

    def gives_back(self, value: str) -> None:
        self.path.write_text("")


class DescriptorReadAndWritten(FileReadAndWritten):
    """The same by a descriptor."""

    def takes(self, value: str) -> bool:
        number = os.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            return not os.read(number, 1) and bool(os.write(number, b"x"))
        finally:
            os.close(number)


class Linked(Strange):
    """A link to a temporary file."""

    def value(self) -> str:
        self.mine = tempfile.NamedTemporaryFile(dir="/tmp")  # noqa: SIM115
        return self.mine.name

    def takes(self, value: str) -> bool:
        with suppress(FileExistsError):
            os.link(value, "/tmp/strange-guard.link")
            return True
        return False

    def gives_back(self, value: str) -> None:
        os.unlink("/tmp/strange-guard.link")  # noqa: PTH108
        self.mine.close()


class RareScript(Strange):
    """A script that only a purchase runs that waits: Redis does not know it at first."""

    def pause(self) -> None:
        while self.redis.register_script("return redis.call('EXISTS', KEYS[1])")(keys=[self.key]):
            super().pause()


class FirstInHash(Strange):
    """A queue in a hash: who is listed first has the lock."""

    def value(self) -> str:
        value = super().value()
        self.redis.hset(self.key, value, "waits")
        self.pause()
        self.redis.exists(self.key)
        self.pause()
        return value

    def takes(self, value: str) -> bool:
        return bool(self.redis.hkeys(self.key)[0] == value)

    def gives_back(self, value: str) -> None:
        self.redis.hdel(self.key, value)


class Announced(Strange):
    """Waits for the message of a release, a moment at a time."""

    wait_s: ClassVar[float | None] = 0.1

    @contextmanager
    def held(self, purchase: Purchase) -> Iterator[None]:
        with self.redis.pubsub() as self.pubsub:
            self.pubsub.subscribe(f"{self.key}:free")
            with super().held(purchase):
                yield

    def pause(self) -> None:
        self.pubsub.get_message(timeout=self.wait_s)

    def gives_back(self, value: str) -> None:
        super().gives_back(value)
        self.redis.publish(f"{self.key}:free", "1")


class Listens(Announced):
    """The same, until a message comes."""

    wait_s = None


class WatchesLate(Strange):
    """Wrong: watches the stock after it has read it."""

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.shop.sale.keys.stock
        while left := int(self.redis.get(stock) or 0):
            with suppress(redis.WatchError), self.redis.pipeline() as pipe:
                pipe.watch(stock)
                pipe.multi()
                for words in self.writes(purchase, left):
                    pipe.execute_command(*words)
                pipe.execute()
                break
        return self.receipt(purchase, left)


class BusyIsSoldOut(Strange):
    """Wrong: who has waited too long, by its clock, is told that all is sold."""

    def buy(self, purchase: Purchase) -> Receipt:
        with (
            suppress(redis.exceptions.LockError),
            self.redis.lock(self.key, timeout=60, blocking_timeout=5, sleep=0.05),
        ):
            return self.sell(purchase)
        return self.receipt(purchase, 0)


class Extends(Strange):
    """A thread extends the lock, a third of its life after the other."""

    @contextmanager
    def held(self, purchase: Purchase) -> Iterator[None]:
        is_over = threading.Event()
        with super().held(purchase), ThreadPoolExecutor(1) as pool:
            pool.submit(self.extend, is_over)
            try:
                yield
            finally:
                is_over.set()

    def extend(self, is_over: threading.Event) -> None:
        while not is_over.wait(0.7):
            self.redis.pexpire(self.key, LIFE_MS)


class NeverSleeps(Strange):
    """Polls as fast as it can."""

    def pause(self) -> None:
        pass


class EtcdLock(Strange):
    """A key with a lease of its own."""

    def value(self) -> str:
        return str(self.sessions.client.grant(5).id)

    def takes(self, value: str) -> Any:
        return self.sessions.client.put("strange", "", if_=Created(b"strange", 0), lease_id=int(value))

    def gives_back(self, value: str) -> None:
        self.sessions.client.revoke(int(value))


class Remembers(Strange):
    """Right with what its module remembers: the next run begins anew."""

    def buy(self, purchase: Purchase) -> Receipt:
        MEMORY.append(purchase.buyer)
        if len(MEMORY) > 1:
            self.redis.get(self.key)
        return super().buy(purchase)


# Clocks of their own: a pause beyond the lease, and a death, let them go on


class TakesOver(Strange):
    """The lock's value is when it ends: what is older is taken over, by the only one whose GETSET finds it so."""

    def takes(self, value: str) -> Any:
        ends = str(time.time() + LIFE_MS / 1000)
        if self.redis.setnx(self.key, ends):
            return True
        old = self.redis.get(self.key)
        return old and float(old) < time.time() and self.redis.getset(self.key, ends) == old

    def gives_back(self, value: str) -> None:
        self.redis.delete(self.key)


class GivesUp(Strange):
    """A lock that stays for ever, for which nobody waits longer than five seconds."""

    def value(self) -> str:
        self.until = datetime.now() + timedelta(seconds=5)
        return "held"

    def takes(self, value: str) -> Any:
        return self.redis.setnx(self.key, value)

    def pause(self) -> None:
        if datetime.now() > self.until:
            raise LockTimeout("five seconds")
        super().pause()


class LooksAtItsWatch(Strange):
    """Writes nothing once the lock may have expired; but a pause may come behind that look."""

    @contextmanager
    def held(self, purchase: Purchase) -> Iterator[None]:
        with super().held(purchase):
            self.until = time.monotonic() + LIFE_MS / 1000
            yield

    def read_and_write(self, section: Section) -> Receipt:
        stock = self.stock(section.purchase.item)
        reading = stock.read(section)
        if time.monotonic() > self.until:
            raise LockLost("it may have expired")
        return reading.receipt or stock.write(section, reading)


class RedisClock(Strange):
    """Held until a time of Redis: nobody can let that pass."""

    def takes(self, value: str) -> Any:
        return self.redis.eval(HOLD_UNTIL, 1, self.key, LIFE_MS // 1000)

    def gives_back(self, value: str) -> None:
        self.redis.delete(self.key)


HOLD_UNTIL = """
local now, ends = tonumber(redis.call('TIME')[1]), tonumber(redis.call('GET', KEYS[1]) or 0)
return ends < now and redis.call('SET', KEYS[1], now + ARGV[1])
"""
WRONG_WITH = {TakesOver: "pause", GivesUp: "kill", LooksAtItsWatch: "pause", FlockBlocking: ""}
MEMORY: list[str] = []
GUARDS: list[type[Strange]] = [each for each in vars().values() if isinstance(each, type) and issubclass(each, Strange)]
_WRONG = (
    Pooled, Tasks, OwnSocket, Gateway, AnotherProgram, SharedByte, BindsPort, EndsItsProcess, WritesLater, Halves,
    TokenBefore, SaysText, RaisesForTheSecond, SaysSold, RetriesThenEnters, SellsTwo, TwoKeysCrossed, FileLooked,
    WatchesLate, BreaksIn, FileReadAndWritten, DescriptorReadAndWritten, BusyIsSoldOut, RedisClock,
)  # fmt: skip
WRONG = {each.name: each for each in _WRONG}
RIGHT = {each.name: each for each in GUARDS if each is not Strange and each.name not in WRONG}
