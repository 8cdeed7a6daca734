"""Step 5: the same lock, and a Redis that refuses a late holder."""

from etcd_lock import mutex
from shop import ORDERS, STOCK, serve, store, think

from lock import LockLost, LockTimeout

KEYS = ["{tutorial}:fence", STOCK, ORDERS]

read = store.register_script("""
    -- KEYS fence, stock, orders; ARGV token. The stock, or nil to a holder that a later one has overtaken.
    if ARGV[1] < (redis.call('GET', KEYS[1]) or '') then return nil end
    redis.call('SET', KEYS[1], ARGV[1])
    return redis.call('GET', KEYS[2])
""")
write = store.register_script("""
    -- KEYS as above; ARGV token, new stock, buyer. 1 if it was written: only for the token that read last.
    if ARGV[1] ~= redis.call('GET', KEYS[1]) then return 0 end
    redis.call('SET', KEYS[2], ARGV[2])
    redis.call('RPUSH', KEYS[3], ARGV[3])
    return 1
""")


def buy_fenced(buyer: str) -> str:
    """Sell inside the lock, with its token."""
    try:
        with mutex.acquire(timeout=15) as hold:
            token = f"{hold.token:020}"  # Lua compares texts
            left = read(KEYS, [token])
            if left is None:
                return "overtaken: nothing was read"
            if int(left) <= 0:
                return "sold out"
            think()
            if write(KEYS, [token, int(left) - 1, buyer]):
                return "sold"
            return "overtaken: nothing was written"
    except LockTimeout:
        return "busy"
    except LockLost:
        return "the lock was lost"


serve(buy_fenced)
