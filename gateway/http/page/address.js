// All state of the page is in its address: #/topics/orders/records?from=last:50&partition=0.

/** `{path: ["topics", "orders"], query: {q: "x"}}` of the address. */
export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(said).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** The address of here with some of its query changed; null takes a key away. */
export function changed(changes) {
  const { path, query } = read();
  return link(path, { ...query, ...changes });
}

/** Go there. `quietly` leaves no step for the Back button: typing in a search field is one step, not ten. */
export function go(hash, { quietly = false } = {}) {
  if (hash === location.hash) return;
  if (quietly) {
    history.replaceState(null, "", hash);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = hash;
  }
}
