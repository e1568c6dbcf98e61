// A form that counts first, and acts at the second press.

import {attempt} from "./toasts.js"

// `count` returns the words and the look of the second press, and its act; or it returns nothing. The count is
// forgotten when the form changes, even while the count is in progress, and when the returned function is called.
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
			await found.act() // after an error half-way, the button can be pressed again
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
		submit.setAttribute("aria-disabled", "true") // `disabled` would take away the focus
		await attempt(press)
		submit.removeAttribute("aria-disabled")
		isBusy = false
	})
	forget()
	return forget
}
