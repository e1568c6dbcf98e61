// Connects the parts of the page. The stream drives everything, and each change leads to a request.

import {call} from "./api.js"
import {Dead} from "./dead.js"
import {closeJob, onJobClosed, openJob, takeProgress} from "./detail.js"
import {Dial} from "./dial.js"
import {byId} from "./dom.js"
import {showFigures, showLateness} from "./figures.js"
import {Firings} from "./firings.js"
import {Incidents} from "./incidents.js"
import {Jobs} from "./jobs.js"
import {showHealth} from "./health.js"
import {readLanes, showLanes} from "./lanes.js"
import {listen} from "./keys.js"
import {follow} from "./live.js"
import {othersOf} from "./others.js"
import {Palette} from "./palette.js"
import {Rates} from "./rates.js"
import {bound, isBounded, reaches} from "./reach.js"
import {River} from "./river.js"
import {followPauseForm, showScopes} from "./scopes.js"
import {Strips} from "./strips.js"
import {attempt, showActs} from "./toasts.js"
import {setTraceUrl} from "./traces.js"
import {TITLES, Views} from "./views.js"
import {setClock, zone} from "./words.js"

const REFRESH_MS = 500 // minimum interval at which a list is requested again
const FORECAST_MS = 1000 // minimum interval of the forecast, for which all pending jobs are counted
const MINUTE_MS = 60_000
const OTHERS_MS = 3000 // the other nodes report every few seconds
const LINKS = {
	live: "live",
	refused: "token needed",
	away: "service unreachable, trying again"
}
const SILENT_CHANGES_MS = 10_000 // other processes may write without our service knowing
const PATIENCE_MS = 5000 // interval of requests whose cost depends on all jobs or all dead letters

// The requests of each view after a change.
const refresh = {
	overview: () => Promise.all([jobs.refresh(), forecast()]),
	dead: () => Promise.all([sometimes(incidents), dead.refresh()]),
	schedules: () => schedules().then(sometimes, () => null),
	lanes: () => showLanes().catch(() => null),
	fleet: () =>
		fleet()
			.then(({showFleet}) => showFleet(stats))
			.catch(() => null),
	wheel: () =>
		near()
			.then(each => each.refresh())
			.catch(() => null) // the stream shows when the service is unreachable
}
// The requests of a view that is shown with filters.
const shown = {
	overview: fields => Promise.all([jobs.showFields(fields), forecast()]),
	dead: fields => Promise.all([incidents.showFields(fields), dead.refresh()]),
	schedules: fields =>
		schedules()
			.then(each => each.showFields(fields))
			.catch(() => null)
}
const sometimes = list => performance.now() - list.looked_at > PATIENCE_MS && list.refresh()
const changed = throttle(() => refresh[views.current]?.(), REFRESH_MS)
const open = key => views.openJob(key)

const views = new Views(
	(name, fields) => (shown[name] ?? refresh[name])(fields),
	key => (key === null ? closeJob() : attempt(() => openJob(key, changed)))
)
onJobClosed(key => views.closedJob(key))
const jobs = new Jobs(open, fields => (river.mark(fields), views.filtered("overview", fields)))
const dead = new Dead(open, changed)
const incidents = new Incidents(open, fields => views.filtered("dead", fields), changed)
// These modules are loaded when their views are first shown.
const fleet = later(() => import("./fleet.js"))
const near = later(async () => new (await import("./near.js")).Near())
const schedules = later(
	async () => new (await import("./schedules.js")).Schedules(open, fields => views.filtered("schedules", fields))
)
const rates = new Rates(byId("rates"))
const firings = new Firings(open)
const wheel = new Dial(byId("dial"))
const strips = new Strips(byId("strips"), part => show({part, prefix: "", state: "pending"}))
const river = new River(byId("river"), open, query => {
	show(query)
	byId("bulk").open = true
	byId("bulk").querySelector("select").focus({preventScroll: true})
})
const show = query => {
	jobs.show(query)
	byId("pending").scrollIntoView({behavior: "smooth", block: "nearest"})
}

let stats = null,
	fleetNow = null, // the last known fleet, in every view
	trouble = null, // the trouble in the last event
	link = null, // the trouble of the connection
	begun_at = Infinity // the time when the first view was shown and its list was requested

const forecast = throttle(async () => {
	if (isBounded()) return
	const next = await call("GET", "/v1/forecast").catch(() => null) // the stream shows when the service is unreachable
	if (!next) return
	strips.show(next.strips)
	river.show(next.strips)
	wheel.show(next.strips[0], next.next_due_at && Date.parse(next.next_due_at), stats?.pending ?? 0)
}, FORECAST_MS)

const readPast = () => isBounded() || river.readPast()
const showOthers = async () => {
	if (isBounded()) return
	await Promise.all([call("GET", "/v1/fleet").then(takeFleet), views.current === "overview" && readLanes()]).catch(
		() => null
	)
}

function takeFleet(found) {
	fleetNow = found
	river.takeOthers(othersOf(found))
}

follow(
	(name, data) => {
		if (name !== "firings") {
			document.body.classList.toggle("read-only", !data.can_write)
			byId("access").hidden = data.can_write
			setTraceUrl(data.trace_url)
			if (data.prefix) bound(data.prefix)
			if (data.now) setClock(Date.parse(data.now))
		}
		const isFirst = begin()
		if (name === "firings") {
			const fresh = firings.take(data)
			river.dots.take(data)
			takeProgress(data)
			if (fresh) wheel.pulse()
			if (!data.is_snapshot || performance.now() - begun_at > REFRESH_MS) changed()
		} else if (name === "stats") {
			rates.take(data)
			views.count(data.dead)
			showFigures(byId("figures"), data, state =>
				state === "dead" ? (location.hash = "#dead") : show({part: null, prefix: "", state})
			)
			showLateness(byId("lateness"), data.lateness)
			showScopes(byId("scopes"), data.paused_scopes)
			byId("store").textContent = data.store
			if (!isFirst && (stats?.changes !== data.changes || stats?.pending !== data.pending)) changed()
			stats = data
			if (views.current === "fleet") changed()
		}
		if (name !== "firings") {
			trouble = name === "trouble" ? data : null
			link = showHealth({trouble, stats: name === "stats" && data, fleet: isBounded() ? null : fleetNow})
		}
		showLink("live")
	},
	state => {
		if (state === "away") begin()
		showLink(state)
	}
)

// Show one message at a time, the most important first.
function showLink(stream) {
	if (stream === "away") {
		byId("trouble").hidden = true
		link = null
	}
	const state = byId("sign-in").open ? "refused" : link ? "trouble" : stream,
		text = LINKS[state] ?? link
	if (byId("link").textContent === text) return
	byId("link").dataset.state = state
	byId("link").textContent = text
	document.body.classList.toggle("away", state === "away")
}

setInterval(
	() =>
		document.hidden ||
		!stats ||
		(views.current === "overview" && forecast()) ||
		(["lanes", "wheel"].includes(views.current) && refresh[views.current]()),
	FORECAST_MS
)
setInterval(() => document.hidden || !stats || showOthers(), OTHERS_MS)
setInterval(() => document.hidden || !stats || views.current !== "overview" || readPast(), MINUTE_MS)
setInterval(
	() =>
		document.hidden ||
		views.current !== "fleet" ||
		fleet().then(
			({tick}) => tick(),
			() => null
		),
	100
)
setInterval(() => document.hidden || changed(), SILENT_CHANGES_MS)

for (const each of document.querySelectorAll("[data-zone]")) each.append(zone)
followPauseForm(byId("pause-scope").querySelector("form"), () => refresh.lanes())
listen(() => views.current)

// Only the default list is requested until the stream has shown which jobs the token reaches, or does not come. If it
// comes later, the page leaves a view of jobs out of reach. Returns true the first time.
function begin() {
	if (views.current) return void (reaches(views.current) || views.show())
	new Palette(
		[
			...Object.entries(TITLES)
				.filter(([name]) => reaches(name))
				.map(([name, title]) => [title, () => (location.hash = name)]),
			...["running", "paused"].map(state => [
				`Jobs that are ${state}`,
				() => (location.hash = `#overview?state=${state}`)
			]),
			...(isBounded()
				? []
				: [["Pause for maintenance", () => ((location.hash = "#lanes"), (byId("pause-scope").open = true))]]),
			["Recent acts", showActs],
			["Keys", () => byId("keys").showModal()]
		],
		open
	)
	begun_at = performance.now()
	views.show()
	readPast()
	return true
}

// Make the module when it is first needed, and again if that failed.
function later(make) {
	let made = null
	return () => (made ??= make().catch(error => ((made = null), Promise.reject(error))))
}

// Run `work` now, or at the end of the wait that the last run began. It never runs twice at once.
function throttle(work, wait_ms) {
	let isBusy = false,
		isWanted = false
	return async function run() {
		if (isBusy) {
			isWanted = true
			return
		}
		isBusy = true
		await work()
		setTimeout(() => {
			isBusy = false
			if (isWanted) {
				isWanted = false
				run()
			}
		}, wait_ms)
	}
}
