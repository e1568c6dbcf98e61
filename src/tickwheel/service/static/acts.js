// The acts on a job. Each shows a note, with an undo if there is one.

import {call, jobPath} from "./api.js"
import {toast} from "./toasts.js"
import {moment, now_ms} from "./words.js"

export async function move(job, delay, onChange) {
	const answer = await call("PATCH", jobPath(job.key), {body: {delay}, generation: job.generation})
	toast(`Moved ${job.key} to ${moment(Date.parse(answer.job.due_at))}`, moveBack(job, answer.job, onChange))
}

export async function skip(job, onChange) {
	const answer = await call("POST", jobPath(job.key, ":skip"), {generation: job.generation})
	if (answer.outcome === "cancelled") return void toast(`That was the last run of ${job.key}: it is gone`)
	toast(`Skipped to ${moment(Date.parse(answer.job.due_at))}`, moveBack(job, answer.job, onChange))
}

const moveBack =
	({key, due_at}, {generation}, onChange) =>
	async () => {
		await call("PATCH", jobPath(key), {body: {at: due_at}, generation})
		onChange()
	}

export async function pause(job, note, onChange) {
	await call("POST", jobPath(job.key, ":pause"), {body: {note}, generation: job.generation})
	toast(`Paused ${job.key}`, async () => (await resume(job), onChange()))
}

// An act without an undo.
const plainly =
	(action, said) =>
	async ({key, generation}) => {
		await call("POST", jobPath(key, action), {generation})
		toast(said(key))
	}

export const run = plainly(":run", key => `Running ${key} now`)
export const resume = plainly(":resume", key => `Resumed ${key}`)
export const replay = plainly(":replay", key => `Replaying ${key}`)

export async function cancel(job, onChange) {
	await call("DELETE", jobPath(job.key), {generation: job.generation})
	const undo = async () => (await restore(job), onChange())
	if (job.state === "dead") toast(`Removed ${job.key}`)
	else if (job.pause)
		toast(`Cancelled ${job.key}`) // no undo: a job that is set again could fire before it is paused again
	else toast(`Cancelled ${job.key}`, undo)
}

export async function stop(job) {
	const answer = await call("DELETE", `${jobPath(job.key)}?running=true`, {generation: job.generation})
	toast(answer.outcome === "stopping" ? `Stopping ${job.key}` : `Cancelled ${job.key}`)
}

// Replay many jobs, a few at a time, and count the refused ones.
export async function replayAll(jobs) {
	const left = [...jobs]
	let done = 0,
		refused = 0
	const worker = async () => {
		for (let job = left.pop(); job; job = left.pop()) {
			await call("POST", jobPath(job.key, ":replay"), {generation: job.generation}).then(
				() => done++,
				() => refused++
			)
		}
	}
	await Promise.all(Array.from({length: 8}, worker))
	toast(`Replaying ${done}${refused ? `; ${refused} had changed meanwhile, and were left alone` : ""}`)
}

// Change `fields` of the job in place. If the rule changes, it determines the due time.
export async function change(job, fields, onChange) {
	const answer = await call("POST", jobPath(job.key, ":change"), {body: fields, generation: job.generation})
	toast(
		`Changed ${job.key}`,
		async () => (await changeBack(job, Object.keys(fields), answer.job.generation), onChange())
	)
}

const TIMED = ["cron", "day_match", "dst_gap", "dst_overlap", "every", "exclude", "time", "tz"]

// Set the rule that determines the due time again. The old phase and instant are restored, but not the attempts.
async function changeBack(job, names, generation) {
	if (TIMED.some(name => names.includes(name))) return setAgain(job, {generation})
	const before = {payload: job.payload, ...(job.recurrence && comingBack(job.recurrence, job.due_at))}
	const back = names.includes("misfire") ? [...names, "misfire_grace"] : names // a change of `misfire` also changes its grace
	const body = Object.fromEntries(back.map(name => [name, before[name] ?? null]))
	await call("POST", jobPath(job.key, ":change"), {body, generation})
}

// Set the job again as it was, unless its key is in use.
export const restore = job => setAgain(job, {onlyNew: true})

async function setAgain(before, condition) {
	const {key, due_at, payload, target, handler, retry, expires_at, recurrence: rule, trace} = before
	const body = {payload, target, handler, retry, trace, ...(rule ? comingBack(rule, due_at) : {at: due_at})}
	const lasts = Date.parse(expires_at) - Date.parse(due_at)
	if (lasts > 0) body.expires = lasts / 1000 // a job that was asked to stop has no time left, and gets no `expires`
	const {job} = await call("PUT", jobPath(key), {body, ...condition})
	if (job.due_at !== due_at) await call("PATCH", jobPath(key), {body: {at: due_at}, generation: job.generation})
}

function comingBack(rule, due_at) {
	const {cron, tz, every_ms, every, time, anchor_at, anchor_on, day_match, dst_gap, dst_overlap} = rule
	const {misfire, overlap, jitter_ms, grace_ms, exclude, until, max_runs, pause_after, runs = 0} = rule
	const common = {tz, misfire, overlap, pause_after, day_match, dst_gap, dst_overlap, jitter: jitter_ms / 1000}
	if (grace_ms) common.misfire_grace = grace_ms / 1000
	if (until) common.until = until / 1000
	if (exclude) common.exclude = exclude
	if (max_runs) common.max_runs = max_runs - runs
	if (cron) return {cron, ...common}
	if (time) return {every, time, at: halfDayBefore(anchor_on, time, tz, due_at), ...common}
	const rounds = Math.max(0, Math.ceil((now_ms() - anchor_at) / every_ms)) // the same phase, from the next run on
	return {every: every_ms / 1000, at: (anchor_at + rounds * every_ms) / 1000, ...common}
}

// Return the instant half a day before the wall clock of `tz` shows `time` on that day. The first such time after it is
// meant. The offset is that of another instant, but an hour of daylight saving does not make the result wrong.
function halfDayBefore(day, time, tz, instant) {
	const offset = new Intl.DateTimeFormat("en", {timeZone: tz, timeZoneName: "longOffset"})
		.formatToParts(Date.parse(instant))
		.find(({type}) => type === "timeZoneName").value
	return (Date.parse(`${day}T${time}${offset.replace("GMT", "") || "Z"}`) - 43_200_000) / 1000
}
