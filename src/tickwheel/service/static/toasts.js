// Short notes at the foot of the page, with an undo if there is one. A list keeps them after they have disappeared.

import {isShown} from "./api.js"
import {byId, el} from "./dom.js"
import {showAct} from "./steady.js"
import {clockTime, now_ms, printable} from "./words.js"

const STAYS_MS = 8000
const SETTLES_MS = 100 // time until a dialog of the act has closed, and screen readers follow the notes
const KEPT = 50

const area = byId("toasts"),
	dialog = byId("acts"),
	opener = byId("show-acts")
const acts = [] // the acts in this tab, the newest first
const modals = new Set() // the open dialogs, the topmost last

// A modal dialog covers everything outside it and hides it from screen readers. So the notes are in the topmost dialog,
// from its opening until just before its close event. (Screen readers follow only an area that existed before its
// text.)
new MutationObserver(changes => {
	for (const {target} of changes) {
		modals.delete(target)
		if (target.matches(":modal")) modals.add(target)
	}
	const place = [...modals].at(-1) ?? document.body
	if (area.parentNode !== place) place.append(area)
}).observe(document.body, {subtree: true, attributeFilter: ["open"]})

// Show a note, and keep it in the list.
export function toast(text, undo) {
	const act = {text, at: now_ms(), undo}
	acts.unshift(act)
	acts.splice(KEPT)
	opener.hidden = false
	showAct()
	show(act)
}

function show(act) {
	const note = el(
		"p",
		{class: "toast"},
		el("span", {}, printable(act.text)),
		undoButton(act, () => note.remove())
	)
	setTimeout(() => area.append(note), SETTLES_MS)
	const end = () => note.remove()
	let timer = setTimeout(end, STAYS_MS)
	const stay = () => clearTimeout(timer)
	const leave = () => (stay(), note.matches(":hover, :focus-within") || (timer = setTimeout(end, STAYS_MS)))
	for (const name of ["pointerenter", "focusin"]) note.addEventListener(name, stay)
	for (const name of ["pointerleave", "focusout"]) note.addEventListener(name, leave)
}

export function showActs() {
	const row = act =>
		el(
			"li",
			{},
			el("span", {class: "when"}, clockTime(act.at)),
			el("span", {}, printable(act.text)),
			undoButton(act, showActs)
		)
	byId("acts-list").replaceChildren(...acts.map(row))
	byId("acts-none").hidden = acts.length > 0
	if (!dialog.open) dialog.showModal()
}

opener.addEventListener("click", showActs)

// Undo only once. `onDone` is called first, because the undo may take a while.
function undoButton(act, onDone) {
	if (!act.undo) return null
	const undo = async () => {
		const work = act.undo
		act.undo = undefined
		onDone()
		if (work && !(await attempt(work))) act.undo = work
	}
	return el("button", {type: "button", class: "quiet", onclick: undo}, "Undo")
}

// Refresh in the background. A trouble that the top of the page already shows is not repeated.
export const refreshed = action => attempt(action, isShown)

// Run `action`. Show its error and the remedy, unless `isSilent`.
export async function attempt(action, isSilent = ({status}) => status === 401) {
	try {
		await action()
		return true
	} catch (error) {
		if (!isSilent(error))
			show({
				text:
					error.remedy && !error.message.includes(error.remedy) ? `${error.message}: ${error.remedy}` : error.message
			})
		return false
	}
}
