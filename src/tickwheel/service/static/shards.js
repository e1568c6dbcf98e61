// Who fires what: the shards of this process, its lease, its clock, and how its store keeps up.

import { call } from "./api.js";
import { byId, el } from "./dom.js";
import { count, lateness, plural, span } from "./words.js";

export async function showShards(stats) {
  const { owner, epoch, shards } = await call("GET", "/v1/shards");
  const lead = byId("shards-lead");
  lead.textContent = owner
    ? `${plural(shards.length, "shard")} fired by ${owner}.`
    : "This process fires nothing: another one owns the store.";
  byId("shards").replaceChildren(
    ...shards.map(({ shard, owner: holder }) => el("div", { class: "shard", title: holder }, el("b", {}, String(shard)), el("span", {}, holder))),
  );
  facts(byId("owner"), owned(stats, owner, epoch));
  facts(byId("commits"), kept(stats));
}

function owned({ leases, offset_ms, near, staged, in_flight }, owner, epoch) {
  const lease = !leases ? "none" : leases.trusted_s == null ? "held by a lock of the system, without an end" : `trusted for another ${span(1000 * leases.trusted_s)}`;
  return [
    ["Owner", owner ?? "nobody here"],
    ["Epoch", epoch == null ? "–" : String(epoch)],
    ["Lease", lease],
    ["Renewed", leases && leases.trusted_s != null ? `${count(leases.renewals)} times, ${plural(leases.failures, "failure")}` : null],
    ["Clock", Math.abs(offset_ms) < 1 ? "as the store's" : `${lateness(Math.abs(offset_ms))} ${offset_ms > 0 ? "behind" : "ahead of"} the store's`],
    ["In memory", `${plural(staged, "job")}, ${count(near)} waiting, ${count(in_flight)} running`],
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
