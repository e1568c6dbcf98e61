// Numbers, spans and instants as text. Only the server's clock counts. Its offset to the browser's clock is kept here.

let offset_ms = 0

export const now_ms = () => Date.now() + offset_ms

export function setClock(server_ms) {
	offset_ms = server_ms - Date.now()
}

const whole = new Intl.NumberFormat("en")
const compact = new Intl.NumberFormat("en", {notation: "compact", maximumFractionDigits: 1})

export const count = (n, compactFrom = 100_000) => (n < compactFrom ? whole.format(n) : compact.format(n))

// A key in which control characters and direction marks are escaped, as on the command line.
export const printable = key =>
	key.replace(/(?! )[\p{C}\p{Z}]/gu, char => {
		const code = char.codePointAt(0).toString(16)
		return (
			SHORT[char] ??
			(code.length <= 2
				? `\\x${code.padStart(2, "0")}`
				: code.length <= 4
					? `\\u${code.padStart(4, "0")}`
					: `\\U${code.padStart(8, "0")}`)
		)
	})
const SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

export const plural = (n, noun) => `${whole.format(n)} ${noun}${n === 1 ? "" : "s"}`

export const percent = ({fraction}) => `${Math.floor(100 * fraction)} %`

export function lateness(ms) {
	if (ms == null) return "–"
	if (ms < 10) return `${ms.toFixed(2)} ms`
	if (ms < 100) return `${ms.toFixed(1)} ms`
	if (ms < 1000) return `${Math.round(ms)} ms`
	return span(ms)
}

// A length of time in its two largest units: "2.4 s", "4 min 10 s", "3 d 4 h".
export function span(ms) {
	const s = ms / 1000
	if (s < 10) return `${s.toFixed(1)} s`
	if (s < 60) return `${Math.floor(s)} s`
	if (s < 3600) return pair(s, 60, "min", 1, "s")
	if (s < 86_400) return pair(s, 3600, "h", 60, "min")
	if (s < 365 * 86_400) return pair(s, 86_400, "d", 3600, "h")
	return pair(s, 365.25 * 86_400, "y", 86_400, "d")
}

// A chosen length of time, such as an interval. Like `span`, but without a decimal of 0.
export const length = ms => span(ms).replace(/\.0 s$/, " s")

function pair(s, large, largeName, small, smallName) {
	const rest = Math.floor((s % large) / small)
	return `${Math.floor(s / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`
}

export function until(ms) {
	const left = ms - now_ms()
	return left > 0 ? span(left) : "due"
}

const clock = new Intl.DateTimeFormat(undefined, {
	hour: "2-digit",
	minute: "2-digit",
	second: "2-digit",
	hourCycle: "h23"
})
const day = new Intl.DateTimeFormat(undefined, {day: "numeric", month: "short"})
const year = new Intl.DateTimeFormat(undefined, {day: "numeric", month: "short", year: "numeric"})

// The zone of all instants that have no other zone.
export const zone = clock.resolvedOptions().timeZone

export const clockTime = ms => clock.format(ms)

export const clockTimeMs = ms => `${clock.format(ms)}.${String(Math.floor(ms) % 1000).padStart(3, "0")}`

// The clock time, with its day unless it is today.
export function moment(ms) {
	const then = new Date(ms),
		today = new Date(now_ms())
	if (then.toDateString() === today.toDateString()) return clock.format(then)
	const named = then.getFullYear() === today.getFullYear() ? day.format(then) : year.format(then)
	return `${named}, ${clock.format(then)}`
}

// An instant as shown in another zone.
export const momentIn = (ms, timeZone) =>
	new Intl.DateTimeFormat(undefined, {timeZone, dateStyle: "medium", timeStyle: "medium", hourCycle: "h23"}).format(ms)

// Two instants of the API, such as those of a move.
export const fromTo = (from, to) => `from ${moment(Date.parse(from))} to ${moment(Date.parse(to))}`

// The value of a field for a local date and time, in whole seconds. It is empty if there is no instant.
export const localTime = ms =>
	ms ? new Date(ms - 60_000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 19) : ""

// The destination of a job: its target and handler.
export const where = ({target, handler}) => (handler ? `${target} ${handler}` : target)

// A recurrence in words.
export function recurrence({
	cron,
	tz,
	every_ms,
	every,
	time,
	day_match,
	dst_gap,
	dst_overlap,
	misfire,
	grace_ms,
	overlap,
	jitter_ms,
	exclude,
	until: last,
	max_runs,
	pause_after,
	runs = 0
}) {
	const dated = time ? `every ${every} at ${time.replace(/:00$/, "")} in ${tz}` : `every ${length(every_ms)}`
	const rule =
		(cron ? `${cron} in ${tz}${day_match ? ", where day and weekday match" : ""}` : dated) +
		(dst_gap ? `, skipped times: ${dst_gap === "end" ? "at the end of the gap" : "left out"}` : "") +
		(dst_overlap ? `, doubled times: ${dst_overlap}` : "")
	const jitter = jitter_ms ? `, spread over ${length(jitter_ms)}` : ""
	const but = exclude ? `, but not ${exclude.join(", ")}` : ""
	const end = (last ? `, until ${moment(last)}` : "") + (max_runs ? `, ${plural(max_runs - runs, "run")} left` : "")
	const missed =
		misfire === "once" ? "" : `, missed runs: ${misfire}${grace_ms ? ` if later than ${length(grace_ms)}` : ""}`
	const pauses = pause_after ? `, paused after ${plural(pause_after, "failure")} in a row` : ""
	return rule + but + jitter + end + missed + (overlap ? `, runs due while one lasts: ${overlap}` : "") + pauses
}
