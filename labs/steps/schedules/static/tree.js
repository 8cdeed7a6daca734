// The schedules as a tree, and the tree as a picture: a box for each step, as high as the schedules that begin with it.

const NAMES = "http://www.w3.org/2000/svg";
const WIDTH = 86; // of a step
const HEIGHT = { least: 3, most: 22, whole: 900 }; // of a schedule, and of all

// `rows`: [{ moves, points, wrong }]. A node is { label, depth, from, rows, children }; `from` counts the rows before it.
export function treeOf(rows) {
  const order = [...rows.keys()].sort((a, b) => compare(rows[a].moves, rows[b].moves));
  return { order, roots: branches(rows, order, 0, 0) };
}

function compare(a, b) {
  const place = a.findIndex((move, index) => move !== b[index]);
  return place < 0 ? a.length - b.length : (a[place] ?? "").localeCompare(b[place] ?? "");
}

function branches(rows, order, depth, from) {
  const nodes = [];
  for (const [index, row] of order.entries()) {
    const { moves, points } = rows[row];
    if (depth >= moves.length) continue;
    const last = nodes.at(-1);
    if (last?.move === moves[depth]) last.order.push(row);
    else nodes.push({ move: moves[depth], point: points[depth], depth, from: from + index, order: [row] });
  }
  for (const node of nodes) {
    const wrong = node.order.filter((row) => rows[row].wrong).length;
    node.tone = wrong === node.order.length ? "bad" : wrong ? "" : "good";
    node.children = branches(rows, node.order, depth + 1, node.from);
  }
  return nodes;
}

// Draws it into `root`; `label(node)` is a step in words, `choose(row)` is called for the one that is clicked.
export function draw(root, rows, { order, roots }, label, choose) {
  const height = Math.min(HEIGHT.most, Math.max(HEIGHT.least, HEIGHT.whole / rows.length));
  const depth = Math.max(...rows.map(({ moves }) => moves.length));
  const svg = element("svg", { width: depth * WIDTH, height: order.length * height });
  const leaves = new Map();
  const add = (node) => {
    const box = element("rect", { x: node.depth * WIDTH, y: node.from * height, width: WIDTH, height: node.order.length * height, class: node.tone });
    box.append(element("title", {}, label(node)));
    box.addEventListener("click", () => choose(node.order[0]));
    svg.append(box);
    if (node.order.length * height >= 13) svg.append(element("text", { x: node.depth * WIDTH + 5, y: node.from * height + 12 }, label(node)));
    if (!node.children.length) leaves.set(node.order[0], box);
    for (const child of node.children) add(child);
  };
  for (const node of roots) add(node);
  root.replaceChildren(svg);
  return leaves;
}

function element(name, attributes, ...children) {
  const node = document.createElementNS(NAMES, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
