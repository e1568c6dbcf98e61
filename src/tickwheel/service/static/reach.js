// The keys that the token of this tab may touch begin with its prefix; what is about all jobs is not asked for then.

import {byId} from "./dom.js"
import {printable} from "./words.js"

const ALL = ["lanes", "fleet", "wheel"] // views of all jobs

let prefix = "" // of every key, if the token has none

export const isBounded = () => prefix !== ""
export const reaches = view => !(isBounded() && ALL.includes(view))

// The prefix to ask for where `text` was typed, or null if no key that begins so is within reach.
export const within = text => (text.startsWith(prefix) ? text : prefix.startsWith(text) ? prefix : null)
export const outside = () => `The token of this tab is for keys that begin with “${printable(prefix)}”.`

export function bound(to) {
	prefix = to
	document.body.classList.add("bounded")
	byId("reach").hidden = false
	byId("reach").textContent = `${outside()} What is about all jobs is not shown.`
}
