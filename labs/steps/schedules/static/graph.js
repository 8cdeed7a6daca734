// The graph of states: what lies where, what leads to wrong ends, and orders through it; and its picture, a column of boxes
// for each number of moves from the beginning.

const NAMES = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [{ box: 13, least: 30, most: 90 }, { least: 5, most: 20, whole: 620 }];
const MARGIN = 8;

// Of a packed graph, see labs/steps/schedules/results.py. A state is { number, depth, from: { state, move }, moves: [{ move, to }],
// row, tone, isEnd, isCut }: "bad" is a state from which all ends are wrong, "good" one from which none is.
export class Graph {
  constructor({ moves, ends, cut }) {
    this.films = ends;
    this.states = moves.map((each, number) => ({ number, moves: Object.entries(each).map(([move, to]) => ({ move, to })), isEnd: number in ends, isCut: cut.includes(number) }));
    this.layers = this.#layers();
    const leading = (test) => this.#leadingTo(this.states.filter(test));
    const [wrong, right, open] = [leading(({ number, isEnd }) => isEnd && this.isWrong(number)), leading(({ number, isEnd }) => isEnd && !this.isWrong(number)), leading(({ isCut }) => isCut)];
    for (const state of this.states) state.tone = open.has(state) || wrong.has(state) === right.has(state) ? "" : wrong.has(state) ? "bad" : "good";
    this.wrong = wrong; // states from which a wrong end can be reached
    this.ways = this.#ways();
  }

  isWrong(end) {
    return this.films[end][2].some((number) => number > 0);
  }

  // An order through a state as [{ move, from, to }], to a wrong end if one can be reached: one that was played so, or else
  // the shortest way to the state, and on.
  orderThrough(number) {
    const played = this.ways.get(number);
    if (played && (this.isWrong(played) || !this.wrong.has(this.states[number]))) return this.alongFilm(played);
    const before = [];
    for (let state = this.states[number]; state.from; state = this.states[state.from.state]) before.unshift({ move: state.from.move, from: state.from.state, to: state.number });
    return [...before, ...(this.#shortest(number, (end) => this.isWrong(end)) ?? this.#shortest(number, () => true) ?? [])];
  }

  alongFilm(end) {
    return this.along(this.films[end][0]);
  }

  along(moves) {
    const order = [];
    for (const move of moves) {
      const from = order.at(-1)?.to ?? 0;
      order.push({ move, from, to: this.states[from].moves.find((each) => each.move === move).to });
    }
    return order;
  }

  // By the number of a state: the end of the shortest film that passes it, a wrong one if there is any.
  #ways() {
    const ends = Object.keys(this.films).map(Number);
    ends.sort((a, b) => this.isWrong(b) - this.isWrong(a) || this.films[a][0].length - this.films[b][0].length);
    const ways = new Map();
    for (const end of ends) for (const { from, to } of this.alongFilm(end)) for (const state of [from, to]) if (!ways.has(state)) ways.set(state, end);
    return ways;
  }

  #shortest(number, test) {
    const came = new Map([[number, null]]);
    for (const at of came.keys()) {
      if (this.states[at].isEnd && test(at)) {
        const order = [];
        for (let step = came.get(at); step; step = came.get(step.from)) order.unshift(step);
        return order;
      }
      for (const { move, to } of this.states[at].moves) if (!came.has(to)) came.set(to, { move, from: at, to });
    }
    return null;
  }

  #leadingTo(states) {
    this.before ??= this.#before();
    const found = new Set(states);
    for (const state of found) for (const from of this.before[state.number]) found.add(from);
    return found;
  }

  #before() {
    const before = this.states.map(() => []);
    for (const state of this.states) for (const { to } of state.moves) before[to].push(state);
    return before;
  }

  // Each as near as can be to those that lead to it.
  #layers() {
    const layers = [[this.states[0]]];
    this.states[0].depth = 0;
    while (layers.at(-1).length) {
      const found = new Map();
      for (const { number, moves, row } of layers.at(-1)) {
        for (const { move, to } of moves) {
          const state = this.states[to];
          if (state.depth === undefined) Object.assign(state, { depth: layers.length, from: { state: number, move } });
          if (state.depth === layers.length) found.set(state, [...(found.get(state) ?? []), row ?? 0]);
        }
      }
      const mean = (rows) => rows.reduce((sum, row) => sum + row, 0) / rows.length;
      const layer = [...found].sort(([, a], [, b]) => mean(a) - mean(b)).map(([state]) => state);
      for (const [index, state] of layer.entries()) state.row = (index + 0.5) / layer.length - 0.5;
      layers.push(layer);
    }
    this.states[0].row = 0;
    return layers.slice(0, -1);
  }
}

// Draws it into `root`; `label(state)` is a state in words, `choose(number)` is called for one that is clicked. Returns a
// function that shows an order, [{ from, to }], and the state that is chosen on it.
export function draw(root, graph, label, choose) {
  const most = Math.max(...graph.layers.map(({ length }) => length));
  const step = Math.min(HEIGHT.most, Math.max(HEIGHT.least, HEIGHT.whole / most));
  const column = Math.min(WIDTH.most, Math.max(WIDTH.least, (root.clientWidth - WIDTH.box - 2 * MARGIN) / (graph.layers.length - 1 || 1)));
  const box = { width: WIDTH.box, height: Math.max(step - 3, 3) };
  const [width, height] = [(graph.layers.length - 1) * column + WIDTH.box + 2 * MARGIN, most * step + 2 * MARGIN];
  const bend = (column - WIDTH.box) / 2;
  const place = ({ depth, row }) => [MARGIN + depth * column, height / 2 + row * graph.layers[depth].length * step];
  const line = (from, to) => {
    const [[x, y], [left, to_y]] = [place(graph.states[from]), place(graph.states[to])];
    const begins = x + box.width;
    return `M${begins} ${y}C${begins + bend} ${y} ${left - bend} ${to_y} ${left} ${to_y}`;
  };
  const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const tone of ["", "good", "bad"]) {
    const lines = graph.states.flatMap(({ number, moves }) => moves.filter(({ to }) => graph.states[to].tone === tone).map(({ to }) => line(number, to)));
    svg.append(element("path", { class: tone, d: lines.join("") }));
  }
  const way = svg.appendChild(element("path", { class: "way" }));
  const boxes = new Map();
  for (const state of graph.states) {
    const [x, y] = place(state);
    const node = element("rect", { x, y: y - box.height / 2, ...box, rx: state.isEnd ? box.height / 2 : 1, class: `${state.tone} ${state.isCut ? "cut" : ""}` }, element("title", {}, label(state)));
    node.addEventListener("click", () => choose(state.number));
    boxes.set(state.number, node);
    svg.append(node);
  }
  root.replaceChildren(svg);
  return (order, chosen) => {
    way.setAttribute("d", order.map(({ from, to }) => line(from, to)).join(""));
    const on = new Set(order.flatMap(({ from, to }) => [from, to]));
    for (const [number, node] of boxes) {
      node.classList.toggle("way", on.has(number));
      node.classList.toggle("chosen", number === chosen);
    }
    const [x] = place(graph.states[chosen]);
    if (x < root.scrollLeft || x + column > root.scrollLeft + root.clientWidth) root.scrollLeft = x - root.clientWidth / 2;
  };
}

function element(name, attributes, ...children) {
  const node = document.createElementNS(NAMES, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
