// The firings of the other nodes, as they report them with each renewal of their leases: the last 50 of each.

let last = new Set() // the fire ids of their last reports

// Returns the number of other nodes, and their firings that the last call did not have.
export function othersOf({nodes}) {
	const others = nodes.filter(({is_this, state}) => !is_this && state !== "gone")
	const all = others.flatMap(recent),
		before = last
	last = new Set(all.map(({fire_id}) => fire_id))
	return {number: others.length, firings: all.filter(({fire_id}) => !before.has(fire_id))}
}

function recent({owner, figures}) {
	return (figures?.recent ?? []).map(each => ({
		...each,
		fire_id: `${each.key}/${each.generation}/${each.attempt}`,
		by: owner
	}))
}
