# The last item: freeze the first instance in the middle of a purchase, past its lease. PORT PID PORT
for port in "$1" "$3"; do
    curl -sf --retry 10 --retry-delay 1 --retry-all-errors -X POST "http://127.0.0.1:$port/reset?stock=1" ||
        { echo "No shop answers on port $port; see what it has printed." >&2; exit 1; }
done
curl -sS -X POST "http://127.0.0.1:$1/buy?buyer=ada&think=6" &
sleep 2 # ada has read the stock and thinks
kill -STOP "$2"
curl -sS -X POST "http://127.0.0.1:$3/buy?buyer=bob" # waits until etcd has ended the frozen holder's lease
kill -CONT "$2"
wait
curl -sS "http://127.0.0.1:$1/verdict?stock=1"
