// Open a view, a form, or a job by typing the beginning of its name or key. The palette has the roles of a combobox.

import {call} from "./api.js"
import {byId, el} from "./dom.js"
import {within} from "./reach.js"
import {printable} from "./words.js"

const PAUSE_MS = 150 // wait after the last key press, before jobs are requested
const JOBS = 6

const dialog = byId("palette"),
	input = byId("palette-input"),
	list = byId("palette-list")

export class Palette {
	// Each of `commands` is a text and an act. `onJob` gets the key of a job to open.
	constructor(commands, onJob) {
		this.commands = commands.map(([text, run]) => ({text, run}))
		this.onJob = onJob
		this.asked = 0
		input.addEventListener("input", () => ((this.chosen = 0), this.find()))
		input.addEventListener("keydown", event => this.press(event))
		dialog.addEventListener("click", event => event.target === dialog && dialog.close())
		addEventListener("keydown", event => {
			if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
			event.preventDefault()
			if (!document.querySelector("dialog[open]")) this.open()
		})
	}

	open() {
		input.value = ""
		this.chosen = 0
		dialog.showModal()
		this.find()
	}

	async find() {
		const text = input.value,
			words = text.toLowerCase().split(/\s+/),
			asked = ++this.asked
		const found = this.commands.filter(each => words.every(word => each.text.toLowerCase().includes(word)))
		this.fill(found)
		const prefix = within(text)
		if (!text || prefix === null) return
		await new Promise(go => setTimeout(go, PAUSE_MS))
		if (asked !== this.asked || !dialog.open) return
		const {jobs} = await call("GET", `/v1/jobs?${new URLSearchParams({prefix, limit: JOBS})}`).catch(() => ({
			jobs: []
		}))
		if (asked !== this.asked) return
		this.fill([
			...found,
			...jobs.map(({key, state}) => ({text: printable(key), hint: state, run: () => this.onJob(key)}))
		])
	}

	fill(found) {
		this.found = found
		list.replaceChildren(
			...found.map(({text, hint = ""}, place) =>
				el(
					"li",
					{role: "option", id: `palette-${place}`, onclick: () => this.run(place)},
					el("span", {}, text),
					el("span", {class: "hint"}, hint)
				)
			)
		)
		byId("palette-none").hidden = found.length > 0
		this.choose(Math.min(this.chosen, found.length - 1))
	}

	choose(place) {
		this.chosen = Math.max(0, place)
		for (const [at, node] of [...list.children].entries()) node.setAttribute("aria-selected", at === this.chosen)
		input.setAttribute("aria-activedescendant", list.children.length ? `palette-${this.chosen}` : "")
		list.children[this.chosen]?.scrollIntoView({block: "nearest"})
	}

	press(event) {
		const step = {ArrowDown: 1, ArrowUp: -1}[event.key]
		if (step) this.choose((this.chosen + step + this.found.length) % (this.found.length || 1))
		else if (event.key === "Enter") this.run(this.chosen)
		else return
		event.preventDefault()
	}

	run(place) {
		if (!this.found[place]) return
		dialog.close()
		this.found[place].run()
	}
}
