// Who fires what: the shards of the store, this process's lease and clock, and how its store keeps up.

import { call } from "./api.js";
import { byId, el } from "./dom.js";
import { count, lateness, plural, span } from "./words.js";

export async function showShards(stats) {
  const { owner, epoch, shards } = await call("GET", "/v1/shards");
  byId("shards-lead").textContent = told(shards, owner);
  byId("shards").replaceChildren(...shards.map((each) => tile(each, owner)));
  facts(byId("owner"), owned(stats, owner, epoch));
  facts(byId("commits"), kept(stats));
}

function told(shards, owner) {
  const ours = shards.filter((each) => each.owner === owner).length;
  const free = shards.filter((each) => !each.owner).length;
  const here = owner ? `${ours} of ${plural(shards.length, "shard")} fired here, by ${owner}.` : "This process fires nothing.";
  return free ? `${here} Nobody fires ${free} of them.` : here;
}

function tile({ shard, owner: holder, epoch, until }, owner) {
  const kind = !holder ? "shard free" : holder === owner ? "shard" : "shard other";
  const title = holder ? `${holder}, epoch ${epoch}, ${until ? `until ${new Date(until).toLocaleTimeString()}` : "without an end"}` : `nobody, epoch ${epoch} was the last`;
  return el("div", { class: kind, title }, el("b", {}, String(shard)), el("span", {}, holder ?? "nobody"), el("span", {}, `epoch ${epoch}`));
}

function owned({ leases, offset_ms, staged, in_memory, waiting, in_flight, leaked }, owner, epoch) {
  const lease = !leases ? "none" : leases.trusted_s == null ? "held by a lock of the system, without an end" : `trusted for another ${span(1000 * leases.trusted_s)}`;
  return [
    ["Owner", owner ?? "nobody here"],
    ["Epoch", epoch == null ? "–" : String(epoch)],
    ["Lease", lease],
    ["Renewed", leases && leases.trusted_s != null ? `${count(leases.renewals)} times, ${plural(leases.failures, "failure")}` : null],
    ["Clock", Math.abs(offset_ms) < 1 ? "as the store's" : `${lateness(Math.abs(offset_ms))} ${offset_ms > 0 ? "behind" : "ahead of"} the store's`],
    ["In memory", `${plural(in_memory, "job")}, ${count(staged)} staged, ${count(waiting)} waiting for a worker, ${count(in_flight)} running`],
    ["Past their timeouts", leaked.map((each) => `${each.count} of ${each.target} ${each.handler} (${each.executor})`).join(", ")],
  ];
}

function kept({ store, loss_window, commits, commit }) {
  return [
    ["Store", store],
    ["At a crash", loss_window || "nothing answered is lost"],
    ["Commits", `${count(commits)}, with ${commit.mean_size.toFixed(1)} writes each`],
    ["They take", commits ? `${lateness(commit.p50_ms)} half of the time, 99 of 100 at most ${lateness(commit.p99_ms)}` : "–"],
    ["Waiting", `${plural(commit.waiting, "write")}`],
    ["Tried again", `${plural(commit.retries, "commit")}, ${plural(commit.failures, "write")} failed`],
  ];
}

function facts(list, rows) {
  list.replaceChildren(...rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
