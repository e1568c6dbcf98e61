// The link to a trace, where the service has the address of what shows traces.

import {el} from "./dom.js"

let template = null // http or https, with {trace_id} in it; the service has checked that

export const setTraceUrl = url => (template = url)

// The link to a W3C traceparent, or its text alone.
export function traceLink(trace, text = trace) {
	if (!template) return text
	const href = template.replaceAll("{trace_id}", () => encodeURIComponent(trace.split("-")[1]))
	return el("a", {href, rel: "noopener", target: "_blank"}, text)
}
