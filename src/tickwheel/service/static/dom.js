// Elements from plain values, and buttons. Text is added as text nodes, so nothing in a job can become markup.

const SVG = "http://www.w3.org/2000/svg"

export const byId = id => document.getElementById(id)

export function el(name, attributes = {}, ...children) {
	return fill(document.createElement(name), attributes, children)
}

export function svg(name, attributes = {}, ...children) {
	return fill(document.createElementNS(SVG, name), attributes, children)
}

function fill(node, attributes, children) {
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on")) node.addEventListener(name.slice(2), value)
		else if (value === true) node.setAttribute(name, "")
		else if (value !== false && value != null) node.setAttribute(name, value)
	}
	node.append(...children.filter(child => child != null))
	return node
}

export const button = (text, look, onclick, more = {}) =>
	el("button", {type: "button", class: look, onclick, ...more}, text)

// A button that asks for a second press. It forgets the first one when the focus moves elsewhere.
export function sure(text, question, onSure, look = "danger", more = {}) {
	let isAsked = false
	const node = button(
		text,
		look,
		() => {
			if (isAsked) return onSure()
			isAsked = true
			node.textContent = question
			node.classList.add("asked")
		},
		more
	)
	node.addEventListener("blur", () => {
		isAsked = false
		node.textContent = text
		node.classList.remove("asked")
	})
	return node
}

// Return the path of slot `i` in a ring of `slots`. On each side there is a gap, which is the share `gap` of the slot's
// width.
export function wedge(i, slots, gap, inner, outer) {
	const from = ((i + gap) / slots) * 2 * Math.PI,
		to = ((i + 1 - gap) / slots) * 2 * Math.PI
	const at = (r, a) => `${(r * Math.sin(a)).toFixed(2)} ${(-r * Math.cos(a)).toFixed(2)}`
	const there = `M${at(inner, from)}L${at(outer, from)}A${outer} ${outer} 0 0 1 ${at(outer, to)}`
	return `${there}L${at(inner, to)}A${inner} ${inner} 0 0 0 ${at(inner, from)}Z`
}

// Fill a list of names and values. Names without a value are left out.
export function facts(list, rows) {
	list.replaceChildren(
		...rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])
	)
}

// Make the children of `parent` agree with `items`. The node of each key is reused, so focus and selection stay.
export function sync(parent, items, keyOf, make, update) {
	const old = new Map([...parent.children].map(node => [node.dataset.key, node]))
	let place = parent.firstElementChild
	for (const item of items) {
		const key = keyOf(item)
		let node = old.get(key)
		if (node) old.delete(key)
		else {
			node = make(item)
			node.dataset.key = key
		}
		update?.(node, item)
		if (node === place) place = place.nextElementSibling
		else parent.insertBefore(node, place)
	}
	for (const node of old.values()) node.remove()
}
