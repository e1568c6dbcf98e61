// A form that counts first, and acts at the second press.

import {attempt} from "./toasts.js"

// `count` returns the words and the look of the second press, and what it does; or nothing. What was counted is forgotten
// by any change of the form, also one that comes while it is being counted, and by the function that is returned.
export function countFirst(form, submit, text, count) {
	let found = null,
		asked = 0,
		isBusy = false
	const forget = () => {
		asked++
		found = null
		submit.textContent = text
		submit.className = ""
	}
	const press = async () => {
		if (found) {
			await found.act() // what went wrong half-way can be pressed again
			return forget()
		}
		const mine = asked,
			counted = await count()
		if (mine !== asked || !counted) return
		found = counted
		submit.textContent = counted.text
		submit.className = counted.look
	}
	form.addEventListener("input", forget)
	form.addEventListener("submit", async event => {
		event.preventDefault()
		if (isBusy) return
		isBusy = true
		submit.setAttribute("aria-disabled", "true") // `disabled` would take the focus from it
		await attempt(press)
		submit.removeAttribute("aria-disabled")
		isBusy = false
	})
	forget()
	return forget
}
