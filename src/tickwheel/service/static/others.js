// The firings of the other nodes, as they report them with each renewal of their leases: the last 50 of each.

import { call } from "./api.js";

const last = new Map(); // by node, the fire ids of its last report

// How many others there are, and those of their firings that the last call did not return.
export async function firingsOfOthers() {
  const { nodes } = await call("GET", "/v1/fleet");
  const others = nodes.filter(({ is_this, state }) => !is_this && state !== "gone");
  return { number: others.length, firings: others.flatMap(news) };
}

function news({ owner, figures }) {
  const all = (figures?.recent ?? []).map((each) => ({ ...each, fire_id: `${each.key}/${each.generation}/${each.attempt}`, by: owner }));
  const before = last.get(owner);
  last.set(owner, new Set(all.map(({ fire_id }) => fire_id)));
  return all.filter(({ fire_id }) => !before?.has(fire_id));
}
