# Twenty clicks at once for ten items, spread over the instances on the given ports; then the verdict.
for port in "$@"; do
    curl -sS --retry 10 --retry-delay 1 --retry-connrefused -X POST "http://127.0.0.1:$port/reset?stock=10" 2> /dev/null
done
for buyer in $(seq 20); do
    curl -sS -X POST "http://127.0.0.1:$1/buy?buyer=$buyer" > /dev/null &
    set -- "$@" "$1" && shift # the next port's turn
done
wait
curl -sS "http://127.0.0.1:$1/verdict?stock=10"
