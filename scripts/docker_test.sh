#!/usr/bin/env bash
# Brings the Compose stack up, alone, over three etcd and as labs extend it, buys an item from each shop, looks at the board,
# sends the rush, removes and creates all containers, stops it, and takes it down.
# Exits with 0, with 1 if something failed, and with 2 if the machine was too slow for a verdict.
# Arguments: the files that extend it, if not all of them. It has its own project, images and ports, so a running stack is safe.
set -euo pipefail
cd "$(dirname "$0")/.."
export COMPOSE_PROJECT_NAME=stock-flash-sale-test COMPOSE_PROFILES=locust
export SHOP_IMAGE=flash-sale:docker-test LOCUST_IMAGE=flash-sale-locust:docker-test
# Nothing is paused here: a busy machine needs no short lease.
export FLASHSALE_LEASE_TTL=30 FLASHSALE_LOCK_TIMEOUT=60
export ETCD_PORT=12379 REDIS_PORT=16379 INSTANCE_8080_PORT=18080 INSTANCE_8090_PORT=18090 BOARD_PORT=18070 LOCUST_PORT=18089

say() { printf 'docker-test: %s\n' "$*"; }
fail() { say "FAILED: $*" >&2; exit 1; }

buy() { # PORT GUARD, the port in the container
    curl --silent --show-error --fail --max-time 20 --request POST "http://127.0.0.1:1$1/stock/reduce?guard=$2"
}

has() { # NAME VALUE, in the JSON on standard input
    grep -Eq "\"$1\": ?$2[,}]"
}

look() { # what the board tells a new viewer
    curl --silent --no-buffer --max-time 3 http://127.0.0.1:18070/events || true
}

try_board() {
    seen=$(look)
    has orders 2 <<< "$seen" && has verdict '"EXACT"' <<< "$seen" || fail "the board does not see the two orders: $seen"
    has outcome '"sold"' <<< "$seen" || fail "the board does not read the section log: $seen"
    has state '"up"' <<< "$seen" || fail "the board does not reach the shops: $seen"
    code=$(curl --silent --output /dev/null --write-out '%{http_code}' --json '{}' http://127.0.0.1:18070/control/reset)
    [ "$code" = 401 ] || fail "a reset without the token was answered with $code"
    docker compose exec -T board sh -c 'test "$(id -u)" != 0 && ! touch /var/section-log/written 2> /dev/null' ||
        fail "the board is root, or can write the section log"
}

in_each_shop() { # COMMAND...
    docker compose exec -T instance-8080 "$@" && docker compose exec -T instance-8090 "$@"
}

try_stack() { # COMPOSE_FILE [GUARD]
    export COMPOSE_FILE=$1
    trap 'docker compose down --volumes --timeout 1 > /dev/null 2>&1' EXIT
    docker compose up --detach --build --wait --quiet-pull

    for order in "8080 etcd" "8090 ${2:-redis-lua}"; do
        read -r port guard <<< "$order"
        answer=$(buy "$port" "$guard") || fail "instance-$port sold nothing under $guard"
        say "$answer"
        has outcome '"sold"' <<< "$answer" && has instance "\"instance-$port\"" <<< "$answer" || fail "unexpected answer"
    done
    curl --silent --fail http://127.0.0.1:18090/stock | has stock 298 || fail "two items sold, but stock is not 298"
    docker compose exec -T etcd etcdctl put written yes > /dev/null || fail "etcd cannot write"
    for server in etcd redis; do
        docker inspect --format '{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}' "$(docker compose ps --quiet "$server")" |
            grep -Eq '^[1-9r].* true$' || fail "$server is root, or can write outside of its volume"
    done
    in_each_shop sh -c 'test "$(id -u)" != 0 && ! touch /srv/written 2> /dev/null' || fail "a shop is root, or can write"
    try_board

    docker compose restart --timeout 5 redis > /dev/null 2>&1
    docker compose up --detach --wait > /dev/null 2>&1
    curl --silent --fail http://127.0.0.1:18080/stock | has stock 298 || fail "Redis lost what was sold"

    docker compose exec -T locust locust || {
        [ $? = 2 ] || fail "a guard broke its promise"
        say "no verdict: this machine is too slow"
        exit 2
    }

    # All containers get other addresses, those of Redis each that of another one.
    docker compose down > /dev/null 2>&1
    mapfile -t servers < <(docker compose config --services | grep -E '^redis(-[0-9])?$' | sort --reverse)
    for server in "${servers[@]}"; do docker compose up --detach --no-deps "$server" > /dev/null 2>&1; done
    docker compose up --detach --wait > /dev/null 2>&1 || fail "not healthy after down and up: $(docker compose ps --all)"
    curl --silent --fail http://127.0.0.1:18080/stock | has orders 300 || fail "orders were lost by down and up"
    answer=$(curl --silent --request POST "http://127.0.0.1:18090/stock/reduce?guard=etcd")
    has outcome '"sold_out"' <<< "$answer" || fail "after down and up the sale says: $answer"

    docker compose stop > /dev/null 2>&1
    for shop in instance-8080 instance-8090 board; do
        code=$(docker inspect --format '{{.State.ExitCode}}' "$(docker compose ps --all --quiet "$shop")")
        [ "$code" = 0 ] || fail "$shop ended with code $code instead of cleanly"
    done
    docker compose down --volumes > /dev/null 2>&1
    say "$COMPOSE_FILE: healthy, sells, shows it, keeps what was sold, exact under etcd, stops cleanly"
}

shopt -s nullglob
[ $# -gt 0 ] || { try_stack docker-compose.yml; set -- deploy/compose/*.yml labs/*/compose.yml; }
for file in "$@"; do
    try_stack "docker-compose.yml:$file" "$(sed -n 's/^x-guard: //p' "$file")"
done
