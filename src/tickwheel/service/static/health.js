// The banner above every view: a trouble of the whole service, its beginning, and the remedy.

import {byId, el} from "./dom.js"
import {moment, now_ms, plural} from "./words.js"

const KEPT = "Jobs are kept, and fire when it is back."
// The documents say more, in operations.md under the same names.
const STEPS = {
	"The store does not answer": [
		"If all nodes report it, the server is down or unreachable: read its log. If one does, look at that machine’s network.",
		"A node fires what it has in memory until its leases lapse. Nothing that was acknowledged is lost.",
		"It resumes without a restart."
	],
	"The store takes no writes": [
		"PostgreSQL: SHOW default_transaction_read_only, and SELECT pg_is_in_recovery(). Was a standby addressed, or the database locked?",
		"Is its disk full? Has a Redis with min-replicas-to-write too few replicas? Its log says so.",
		"Nodes fire again within the length of a lease."
	],
	"No node fires": [
		"Is a process of tickwheel serve or run up? systemctl status tickwheel, journalctl -u tickwheel.",
		"The view Fleet shows who had the shards, and until when.",
		"tickwheel doctor names the host and process that holds a store of SQLite."
	]
}

let shown = null

// `trouble` is the event of a store that does not answer, and `stats` the event of a store that does. `fleet` is the
// last known fleet.
export function showHealth({trouble, stats, fleet}) {
	const found = trouble ? down(trouble) : (readOnly(stats) ?? dark(fleet)),
		place = byId("trouble")
	if (found && found.name === shown?.name) found.since = shown.since ?? found.since // it began when it was first seen
	shown = found
	place.hidden = !found
	if (!found) return null
	const {name, since, said, link} = found
	const text = `${name}${since ? `, since ${moment(since)}` : ""}: ${said}`
	if (place.firstElementChild?.textContent !== text)
		place.replaceChildren(
			el("p", {}, text),
			el("details", {}, el("summary", {}, "What to do"), el("ol", {}, ...STEPS[name].map(step => el("li", {}, step))))
		)
	return link
}

const down = ({detail, since}) => ({
	name: "The store does not answer",
	since: since && Date.parse(since),
	said: `${detail}. ${KEPT}`,
	link: "store unreachable"
})

// A store that answers reads, but whose leases have all expired, accepts no writes.
const readOnly = stats =>
	stats?.leases?.trusted_s === 0
		? {
				name: "The store takes no writes",
				since: stats.leases.silent_s && now_ms() - 1000 * stats.leases.silent_s,
				said: `this process reads it, and could not renew its leases, so it fires nothing. ${KEPT}`,
				link: "nothing fires"
			}
		: null

// Shards that no process fires: their owner has gone, and no other process has taken them over.
function dark(fleet) {
	if (!fleet?.shards.length) return null
	const alive = new Set(fleet.nodes.filter(({state}) => state !== "gone").map(({owner}) => owner))
	if (fleet.shards.some(({owner}) => alive.has(owner))) return null
	const ends = fleet.nodes.map(({until}) => Date.parse(until)).filter(Boolean)
	return {
		name: "No node fires",
		since: ends.length && Math.max(...ends),
		said: `nobody has the leases of ${plural(fleet.shards.length, "shard")}. ${KEPT}`,
		link: "nothing fires"
	}
}
