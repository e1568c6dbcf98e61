// Lists whose rows do not move under the pointer or the focus. Changes wait until both are elsewhere.

import {sync} from "./dom.js"

const waiting = new Map() // the latest redraw of each list

let isActing = false

// The reader's own act is shown at once, until the pointer moves.
export const showAct = () => (isActing = true)
addEventListener("pointermove", () => (isActing = false), {passive: true})

const isAimedAt = list => !isActing && list.matches(":hover, :has(:focus-visible)")

// Like `sync`. It takes effect at once if no row moves by it, or if `question` has changed. Otherwise rows are updated
// in place, removed rows are dimmed, and the list shows the number of new ones. With `isHeld` the changes wait for a
// call without it.
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
