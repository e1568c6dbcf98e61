// The address after its "#". It names a view with its filters, as "#overview?state=dead", or a job before the view, as
// "#job/KEY".

const JOB = "job/"

export function read() {
	const text = location.hash.slice(1)
	if (text.startsWith(JOB)) return {key: decoded(text.slice(JOB.length))}
	const [name, query = ""] = text.split("?", 2)
	return {name, fields: Object.fromEntries(new URLSearchParams(query))}
}

export const jobAddress = key => `#${JOB}${encodeURIComponent(key)}`

// Fields without a value are left out.
export function viewAddress(name, fields) {
	const query = new URLSearchParams(Object.entries(fields).filter(([, value]) => value))
	return `#${name}${query.size ? `?${query}` : ""}`
}

// A user may have typed an address that is not encoded. Then the text itself is the key.
function decoded(text) {
	try {
		return decodeURIComponent(text)
	} catch {
		return text
	}
}
