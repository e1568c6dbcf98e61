// The stream of firings and figures. It consists of server-sent events read by fetch, because EventSource cannot send a
// token.
//
// Every connection begins with a snapshot, so nothing has to be resumed. After a restart, a lost network or a hidden
// tab the page connects again: the first time at once, and then with growing waits.

import {headers, here, problemOf} from "./api.js"

const WAIT_MIN_MS = 500
const WAIT_MAX_MS = 5000
const SILENCE_MS = 6000 // the service sends an event every second

export function follow(onEvent, onState) {
	let wait = WAIT_MIN_MS

	async function connect() {
		const abort = new AbortController()
		const leave = () => document.hidden && abort.abort()
		let hasHeard = false,
			isOver = false
		document.addEventListener("visibilitychange", leave)
		try {
			await read(abort, (name, data) => {
				wait = WAIT_MIN_MS
				onState("live")
				onEvent(name, data)
				hasHeard = true
			})
			isOver = hasHeard // the service ends a stream in time; if it has stopped, the next one fails
		} catch {
			// The stream was refused, cut off, silent or hidden. The remedy in each case is to connect again.
		} finally {
			document.removeEventListener("visibilitychange", leave)
		}
		if (!isOver) onState("away")
		setTimeout(whenVisible, wait)
		wait = Math.min(wait * 2, WAIT_MAX_MS)
	}

	function whenVisible() {
		if (!document.hidden) connect()
		else document.addEventListener("visibilitychange", whenVisible, {once: true})
	}

	whenVisible()
}

async function read(abort, onEvent) {
	let silence
	const listen = () => {
		clearTimeout(silence)
		silence = setTimeout(() => abort.abort(), SILENCE_MS)
	}
	try {
		listen()
		const headed = {headers: headers(), signal: abort.signal, cache: "no-store"}
		const answer = await fetch(here("/v1/live?nodes=this"), headed)
		if (!answer.ok) return void (await problemOf(answer))
		let text = ""
		for await (const chunk of chunks(answer.body.pipeThrough(new TextDecoderStream()))) {
			listen()
			const blocks = (text + chunk).split("\n\n")
			text = blocks.pop()
			for (const block of blocks) parse(block, onEvent)
		}
	} finally {
		clearTimeout(silence)
	}
}

// Safari has no asynchronous iteration of streams.
async function* chunks(stream) {
	const reader = stream.getReader()
	for (;;) {
		const {done, value} = await reader.read()
		if (done) return
		yield value
	}
}

function parse(block, onEvent) {
	let name = "message",
		data = ""
	for (const line of block.split("\n")) {
		if (line.startsWith("event: ")) name = line.slice(7)
		else if (line.startsWith("data: ")) data += line.slice(6)
	}
	if (data) onEvent(name, JSON.parse(data))
}
