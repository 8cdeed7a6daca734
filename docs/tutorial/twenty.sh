# Twenty clicks at once for ten items, spread over the instances on the given ports; then the verdict.
for port in "$@"; do
    curl -sf --retry 10 --retry-delay 1 --retry-all-errors -X POST "http://127.0.0.1:$port/reset?stock=10" ||
        { echo "No shop answers on port $port; see what it has printed." >&2; exit 1; }
done
for buyer in $(seq 20); do
    curl -sS -X POST "http://127.0.0.1:$1/buy?buyer=$buyer" > /dev/null &
    set -- "$@" "$1" && shift # the next port's turn
done
wait
curl -sS "http://127.0.0.1:$1/verdict?stock=10"
