// The link to a trace, if the service has the address of a trace viewer.

import {el} from "./dom.js"

let template = null // http or https, and contains {trace_id}: the service has checked both

export const setTraceUrl = url => (template = url)

// The link to a W3C traceparent, or only its text.
export function traceLink(trace, text = trace) {
	if (!template) return text
	const href = template.replaceAll("{trace_id}", () => encodeURIComponent(trace.split("-")[1]))
	return el("a", {href, rel: "noopener", target: "_blank"}, text)
}
