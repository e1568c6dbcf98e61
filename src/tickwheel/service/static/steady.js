// Lists whose rows do not jump under the pointer or the focus: changes wait until these are elsewhere.

import {sync} from "./dom.js"

const waiting = new Map() // by list, its latest redraw

let isActing = false

// The reader's own act is shown at once, until the pointer moves.
export const showAct = () => (isActing = true)
addEventListener("pointermove", () => (isActing = false), {passive: true})

const isAimedAt = list => !isActing && list.matches(":hover, :has(:focus-visible)")

// As `sync`, at once if no row moves by it or if `question` is another one; else rows are updated where they are, those
// that are gone are dimmed, and the list says how many are new. `isHeld` makes it wait until it is called without.
export function syncCalmly(list, items, keyOf, make, update, {question = "", isHeld = false} = {}) {
	if (!waiting.has(list)) begin(list)
	const byKey = new Map(items.map(item => [keyOf(item), item])),
		keys = [...byKey.keys()]
	const rows = [...list.children],
		isMoving = rows.some((row, i) => row.dataset.key !== keys[i])
	const isSame = list.dataset.question === question
	if (isSame && isMoving && (isHeld || isAimedAt(list))) {
		for (const row of rows) {
			const item = byKey.get(row.dataset.key)
			row.toggleAttribute("data-gone", !item)
			if (item) update?.(row, item)
			byKey.delete(row.dataset.key)
		}
		list.dataset.news = byKey.size ? `${byKey.size === keys.length ? "all" : byKey.size} new` : "changed"
		waiting.set(list, isHeld ? null : () => syncCalmly(list, items, keyOf, make, update, {question}))
		return
	}
	waiting.set(list, null)
	list.dataset.question = question
	delete list.dataset.news
	for (const row of rows) row.removeAttribute("data-gone")
	sync(list, items, keyOf, make, update)
}

function begin(list) {
	const leave = () => isAimedAt(list) || waiting.get(list)?.()
	for (const name of ["pointerleave", "focusout"]) list.addEventListener(name, () => setTimeout(leave))
}
