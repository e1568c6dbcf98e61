// Paused scopes, above everything else. Each has a button to resume it.

import {call} from "./api.js"
import {button, el, sync} from "./dom.js"
import {attempt, toast} from "./toasts.js"
import {moment, plural} from "./words.js"

export function showScopes(parent, scopes) {
	parent.hidden = !scopes.length
	sync(parent, scopes, ({scope}) => scope, make, update)
}

// `onDone` is called once a scope is paused.
export function followPauseForm(form, onDone) {
	form.addEventListener("submit", async event => {
		event.preventDefault()
		const {scope, note} = Object.fromEntries(new FormData(form))
		const pause = () => call("POST", "/v1/scopes:pause", {body: {scope, note}})
		if (await attempt(pause)) form.reset(), toast(`Paused ${named(scope)}: resume it above`), onDone()
	})
}

const named = scope => (scope === "*" ? "Everything" : scope)

function make({scope}) {
	const resume = async () => {
		await call("POST", "/v1/scopes:resume", {body: {scope}})
		toast(`Resumed ${scope}`)
	}
	return el(
		"li",
		{},
		el("span"),
		button("Resume", "writes", () => attempt(resume), {"aria-label": `Resume ${scope}`})
	)
}

function update(node, {scope, at, by, note, count}) {
	const why = note ? `: ${note}` : ""
	const since = `since ${moment(Date.parse(at))}, by ${by}${why}`
	const text = `${named(scope)} is paused ${since}. ${plural(count, "due job")} waiting.`
	if (node.firstElementChild.textContent !== text) node.firstElementChild.textContent = text
}
