// Requests to the service that served the page. A problem (RFC 9457) is thrown as an Error that carries it.

import {byId} from "./dom.js"

export class Problem extends Error {
	constructor(status, document) {
		super(document.detail ?? document.title ?? `status ${status}`)
		this.status = status
		this.remedy = document.remedy
	}
}

const TOKEN = "tickwheel.token"
const token = sessionStorage.getItem(TOKEN) // another token needs a new page, because it may reach fewer jobs
export const hasToken = token !== null
const UNREACHABLE = 0

// Troubles that the top of the page shows.
export const isShown = ({status}) => [UNREACHABLE, 401, 503].includes(status)

// Return the address of a path of the service, wherever the page is mounted. It is absolute: a relative one would
// repeat a name and a password in the page's own address, and fetch refuses such addresses.
const folder = location.origin + location.pathname.replace(/[^/]*$/, "")
export const here = path => folder + path.slice(1)

export const headers = (extra = {}) => (token ? {...extra, authorization: `Bearer ${token}`} : extra)

export async function call(method, path, {body, generation, onlyNew} = {}) {
	const extra = {}
	if (body !== undefined) extra["content-type"] = "application/json"
	if (generation !== undefined) extra["if-match"] = `"${generation}"`
	if (onlyNew) extra["if-none-match"] = "*"
	const answer = await fetch(here(path), {
		method,
		headers: headers(extra),
		body: body === undefined ? undefined : JSON.stringify(body)
	}).catch(error => {
		throw new Problem(UNREACHABLE, {detail: `the service is unreachable (${error.message})`})
	})
	if (!answer.ok) throw await problemOf(answer)
	return decode(await answer.text())
}

// Return the error of an answer. If the service refused the token, ask for another one.
export async function problemOf(answer) {
	const problem = new Problem(answer.status, await answer.json().catch(() => ({})))
	if (answer.status === 401) askForToken(problem.message)
	return problem
}

// A payload is JSON of any program. Numbers that JavaScript would round keep their digits, when they are shown and when
// they are set again.
function decode(text) {
	const value = JSON.parse(text)
	if (value.payload !== undefined) value.payload = exact(text).payload
	return value
}

export const exact = text => JSON.parse(text, JSON.rawJSON && keepDigits)

const keepDigits = (_name, value, {source}) =>
	typeof value === "number" && String(value) !== source ? JSON.rawJSON(source) : value

export const jobPath = (key, action = "") => `/v1/jobs/${encodeURIComponent(key)}${action}`

function askForToken(why) {
	const dialog = byId("sign-in"),
		refused = byId("refused")
	refused.hidden = token === null
	refused.textContent = `The service refuses the token of this tab: ${why}.`
	if (!dialog.open) dialog.showModal()
}

byId("token-form").addEventListener("submit", event => {
	sessionStorage.setItem(TOKEN, new FormData(event.target).get("token"))
	location.reload()
})
