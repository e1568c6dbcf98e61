// The state of this process: its lease and clock, and whether its store keeps up.

import {byId, facts} from "./dom.js"
import {count, lateness, plural, span} from "./words.js"

export function showProcess(stats) {
	facts(byId("owner"), owned(stats))
	facts(byId("commits"), kept(stats))
}

function owned({leases, offset_ms, staged, in_memory, waiting, in_flight, leaked, owner, epoch}) {
	const lease = !leases
		? "none"
		: leases.trusted_s == null
			? "held by a lock of the system, without an end"
			: `trusted for another ${span(1000 * leases.trusted_s)}`
	return [
		["Owner", owner ?? "nobody here"],
		["Epoch", epoch == null ? "–" : String(epoch)],
		["Lease", lease],
		[
			"Renewed",
			leases && leases.trusted_s != null
				? `${count(leases.renewals)} times, ${plural(leases.failures, "failure")}`
				: null
		],
		[
			"Clock",
			Math.abs(offset_ms) < 1
				? "as the store's"
				: `${lateness(Math.abs(offset_ms))} ${offset_ms > 0 ? "behind" : "ahead of"} the store's`
		],
		[
			"In memory",
			`${plural(in_memory, "job")}, ${count(staged)} staged, ${count(waiting)} waiting for a worker, ${count(in_flight)} running`
		],
		[
			"Past their timeouts",
			leaked.map(each => `${each.count} of ${each.target} ${each.handler} (${each.executor})`).join(", ")
		]
	]
}

function kept({store, loss_window, commits, commit}) {
	return [
		["Store", store],
		["At a crash", loss_window || "nothing answered is lost"],
		["Commits", `${count(commits)}, with ${commit.mean_size.toFixed(1)} writes each`],
		[
			"They take",
			commits ? `${lateness(commit.p50_ms)} half of the time, 99 of 100 at most ${lateness(commit.p99_ms)}` : "–"
		],
		["Waiting", `${plural(commit.waiting, "write")}`],
		["Tried again", `${plural(commit.retries, "commit")}, ${plural(commit.failures, "write")} failed`]
	]
}
