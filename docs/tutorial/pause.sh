# The last item: freeze the first instance in the middle of a purchase, past its lease. PORT PID PORT
curl -sS --retry 10 --retry-delay 1 --retry-connrefused -X POST "http://127.0.0.1:$1/reset?stock=1" 2> /dev/null
curl -sS --retry 10 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$3/verdict?stock=1" > /dev/null 2>&1
curl -sS -X POST "http://127.0.0.1:$1/buy?buyer=ada&think=6" &
sleep 2 # ada has read the stock and thinks
kill -STOP "$2"
curl -sS -X POST "http://127.0.0.1:$3/buy?buyer=bob" # waits until etcd has ended the frozen holder's lease
kill -CONT "$2"
wait
curl -sS "http://127.0.0.1:$1/verdict?stock=1"
