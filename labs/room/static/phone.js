// The buyers' page, for old phones: no modules, no fetch. The server tells the state; the page makes the key of a click,
// repeats the click until it is answered, and counts down by the server's clock.
(function () {
  "use strict";

  var TIMEOUT_MS = 8000; // of one request; a click is then sent again with its key
  var AGAIN_MS = 700; // after a request that failed
  var state = null; // as the server told it last
  var opensAt = 0; // by this phone's clock
  var bestMs = Infinity; // how long the request took by which opensAt was set: the shorter, the truer
  var sale = null; // the number of the sale to which opensAt belongs
  var click = null; // { sale, key }: not answered yet
  var timer = 0; // of the next look
  var busy = false; // a look or a click is under way
  var turn = 0; // of the request whose answer is awaited; a click does not wait for the look before it

  function $(id) {
    return document.getElementById(id);
  }

  function text(key, values) {
    return String(TEXTS[key]).replace(/\{(\w+)\}/g, function (_, name) {
      return values && name in values ? values[name] : "";
    });
  }

  function say(id, content) {
    if ($(id).textContent !== content) $(id).textContent = content;
  }

  // What `call` returns; undefined if it fails, as storage does in a private window and the parser of half an answer.
  function attempt(call) {
    try {
      return call();
    } catch (error) {
      return void error;
    }
  }

  function keep(name, value) {
    attempt(function () {
      if (value === null) localStorage.removeItem(name);
      else localStorage.setItem(name, JSON.stringify(value));
    });
  }

  function kept(name) {
    return attempt(function () {
      return JSON.parse(localStorage.getItem(name));
    });
  }

  function newKey() {
    var bytes = [];
    var index;
    if (window.crypto && crypto.getRandomValues) bytes = crypto.getRandomValues(new Uint8Array(16));
    else for (index = 0; index < 16; index += 1) bytes.push(Math.floor(Math.random() * 256));
    var key = "";
    for (index = 0; index < 16; index += 1) key += (bytes[index] + 256).toString(16).slice(1);
    return key;
  }

  // `then(status, told, began)`; status 0: no answer.
  function ask(method, path, body, key, then) {
    var request = new XMLHttpRequest();
    var began = Date.now();
    var over = false;
    function end() {
      if (over) return;
      over = true;
      var told = attempt(function () {
        return JSON.parse(request.responseText);
      });
      then(told ? request.status : 0, told, began);
    }
    request.open(method, path, true);
    request.timeout = TIMEOUT_MS;
    request.setRequestHeader("Content-Type", "application/json");
    if (key) request.setRequestHeader("Idempotency-Key", key);
    request.onload = request.onerror = request.ontimeout = request.onabort = end;
    request.send(body ? JSON.stringify(body) : null);
  }

  function problem(told) {
    var kind = "kind." + String(told.type).split(":").pop();
    return text(kind in TEXTS ? kind : "kind.other", { detail: told.detail });
  }

  function complain(content) {
    say("said", content || "");
    $("said").hidden = !content;
  }

  function take(told, began) {
    var now = Date.now();
    state = told;
    if (told.sale !== sale) {
      sale = told.sale;
      bestMs = Infinity;
    }
    if (told.opens_in_ms !== null && now - began < bestMs) {
      bestMs = now - began;
      opensAt = (now + began) / 2 + told.opens_in_ms;
    }
    // A click of another sale, or of one that is answered, is over.
    if (click && (click.sale !== sale || (told.me && told.me.bought && told.me.bought !== "pending"))) forget();
    complain("");
    show();
  }

  function forget() {
    click = null;
    keep("click", null);
  }

  function soon(ms) {
    clearTimeout(timer);
    timer = setTimeout(look, ms);
  }

  function look() {
    if (busy) return;
    busy = true;
    turn += 1;
    var own = turn;
    function then(status, told, began) {
      if (own === turn) answered(status, told, began);
    }
    if (click) ask("POST", "/buy", { sale: click.sale }, click.key, then);
    else ask("GET", "/state", null, null, then);
  }

  function answered(status, told, began) {
    busy = false;
    if (status === 200) {
      take(told, began);
      soon(click ? AGAIN_MS : told.poll_ms * (0.75 + Math.random() / 2));
      return;
    }
    if (!status) {
      complain(text("no_connection"));
      soon(AGAIN_MS * (1 + Math.random()));
      return;
    }
    if (click && status === 409) forget(); // the sale is not open: nothing was bought
    else if (status === 401) {
      forget();
      if (state) state.me = null;
    } else complain(problem(told));
    show();
    soon(AGAIN_MS * (1 + Math.random()));
  }

  function buy() {
    if (click || !state || !state.me || state.me.bought) return;
    click = { sale: sale, key: newKey() };
    keep("click", click);
    show();
    busy = false;
    soon(0);
  }

  function clock(ms) {
    var seconds = Math.ceil(ms / 1000);
    return Math.floor(seconds / 60) + ":" + String(100 + (seconds % 60)).slice(1);
  }

  function holders(me) {
    var names = me.others.slice();
    if (me.more) names.push(text("and_more", { n: me.more }));
    if (me.robots) names.push(text(me.robots === 1 ? "robots_one" : "robots_many", { n: me.robots }));
    var n = me.others.length + me.more + me.robots;
    if (!n) return text("alone");
    return text(n === 1 ? "hold_one" : "hold_many", { n: n, number: me.number, names: names.join(text("separator")) });
  }

  // What the phone shows: the state of the screen, a word, a number, a sentence, what the button says, and what stands behind
  // the number.
  function view() {
    var me = state.me;
    var left = opensAt - Date.now();
    if (me.bought === "sold") return [me.others.length + me.robots ? "clash" : "sold", text("sold"), String(me.number), holders(me), text("bought"), text("yours")];
    if (me.bought === "sold_out") return ["out", text("sold_out"), "", text("sold_out_more"), text("sold_out")];
    if (me.bought === "pending") return ["pending", text("pending"), "", text("pending_more"), text("buying")];
    if (click) return ["pending", text("pending"), "", text("sending"), text("buying")];
    if (state.phase === "waiting") return ["wait", text("wait"), "", text("wait_more"), text("not_yet")];
    if (state.phase === "countdown" && left > 0) return ["wait", text("not_yet"), clock(left), "", text("not_yet")];
    return ["open", text("open"), "", "", text("buy")];
  }

  function show() {
    var joined = Boolean(state && state.me);
    $("join").hidden = !state || joined;
    $("sale").hidden = !joined;
    if (state) $("pin-row").hidden = !state.needs_pin;
    if (!joined) return;
    var seen = view();
    $("screen").setAttribute("data-state", seen[0]);
    say("word", seen[1]);
    say("number", seen[2]);
    say("after", seen[5] || "");
    say("more", seen[3]);
    say("buy", seen[4]);
    $("buy").disabled = seen[0] !== "open";
    say("who", state.me.name);
    say("crowd", text("crowd", { n: state.joined }));
    $("bet-form").hidden = seen[0] !== "wait";
    say("bet-label", state.stock === null ? text("bet_label_unknown") : text("bet_label", { n: state.stock }));
    say("bet-said", state.me.bet === null ? "" : text("bet_said", { n: state.me.bet }));
  }

  function sent(status, told, began) {
    if (status === 200) take(told, began);
    else complain(status ? problem(told) : text("no_connection"));
  }

  $("join").addEventListener("submit", function (event) {
    event.preventDefault();
    var body = { name: $("name").value || "-" };
    if ($("pin").value) body.pin = $("pin").value;
    ask("POST", "/join", body, null, sent);
  });

  $("bet-form").addEventListener("submit", function (event) {
    event.preventDefault();
    var bet = $("bet").value;
    if (/^\d{1,4}$/.test(bet) && Number(bet) <= state.most_buyers) ask("POST", "/bet", { bet: Number(bet) }, null, sent);
    else complain(text("no_number", { n: state.most_buyers }));
    $("bet").blur(); // the keyboard would hide the button
  });

  $("buy").addEventListener("click", buy);
  document.addEventListener("visibilitychange", function () {
    if (!document.hidden) soon(0);
  });

  var marked = document.querySelectorAll("[data-text]");
  for (var index = 0; index < marked.length; index += 1) marked[index].textContent = text(marked[index].getAttribute("data-text"));
  document.title = text("title");
  var names = text("names").split(" ");
  $("name").value = names[Math.floor(Math.random() * names.length)] + " " + (10 + Math.floor(Math.random() * 90));
  click = kept("click") || null;
  sale = click ? click.sale : null;
  setInterval(function () {
    if (state && state.me) show(); // the countdown
  }, 100);
  look();
})();
