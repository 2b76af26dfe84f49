// Nodes are made here and nowhere else, out of text alone: nothing that a record, a topic or a client says
// is ever read as markup. `morph` brings what is shown to what a view returned and keeps the nodes that
// stay, and with them the focus, a selection and how far a table is scrolled.

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = ["onclick", "oninput", "onchange", "onsubmit", "onkeydown", "ontoggle"];

/** An element. `key` tells it from its siblings over updates; `on...` are functions; false leaves out. */
export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "key") node.key = value;
    else if (HANDLERS.includes(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** Make the children of `shown` those of `wanted`. */
export function morph(shown, wanted) {
  const keyed = new Map();
  for (const child of shown.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let at = shown.firstChild;
  for (const next of [...wanted.childNodes]) {
    const same = next.key === undefined ? at : keyed.get(next.key);
    if (same && alike(same, next)) {
      if (same !== at) shown.insertBefore(same, at);
      become(same, next);
      at = same.nextSibling;
    } else {
      shown.insertBefore(next, at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(shown, wanted) {
  return shown.nodeName === wanted.nodeName && shown.key === wanted.key;
}

function become(shown, wanted) {
  if (shown.nodeType !== Node.ELEMENT_NODE) {
    if (shown.data !== wanted.data) shown.data = wanted.data;
    return;
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  }
  for (const { name } of [...shown.attributes]) {
    const opened = name === "open" && shown.nodeName === "DETAILS";
    if (!wanted.hasAttribute(name) && !opened) shown.removeAttribute(name);
  }
  for (const name of HANDLERS) if (shown[name] !== wanted[name]) shown[name] = wanted[name];
  morph(shown, wanted);
  // What somebody is typing stays; else a field shows what the address says.
  const field = shown.nodeName === "INPUT" || shown.nodeName === "SELECT";
  if (field && document.activeElement !== shown && shown.value !== wanted.value) shown.value = wanted.value;
}
