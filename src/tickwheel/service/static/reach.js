// If the token of this tab has a prefix, it reaches only keys with this prefix. Then no request is about all jobs.

import {byId} from "./dom.js"
import {printable} from "./words.js"

const ALL = ["lanes", "fleet", "wheel"] // views of all jobs

let prefix = "" // every key, if the token has no prefix

export const isBounded = () => prefix !== ""
export const reaches = view => !(isBounded() && ALL.includes(view))

// Return the prefix to request for the typed `text`. Return null if no key that begins so is within reach.
export const within = text => (text.startsWith(prefix) ? text : prefix.startsWith(text) ? prefix : null)
export const outside = () => `The token of this tab is for keys that begin with “${printable(prefix)}”.`

export function bound(to) {
	prefix = to
	document.body.classList.add("bounded")
	byId("reach").hidden = false
	byId("reach").textContent = `${outside()} What is about all jobs is not shown.`
}
