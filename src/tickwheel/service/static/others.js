// The firings of the other nodes. Each node reports its last 50 when it renews its leases.

let last = new Set() // the fire ids in their last reports

// Returns the number of other nodes, and those of their firings that the last call did not have.
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
