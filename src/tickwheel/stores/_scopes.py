from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tickwheel.jobs.model import EVERYTHING, scope_over
from tickwheel.stores.contract import Skill

__all__ = ["unpaused"]


def unpaused(
    skills: Sequence[Skill], paused: Collection[str], handlers_of: Callable[[str], Iterable[str]]
) -> Sequence[Skill]:
    """
    Return the *skills* that are not paused. A skill is a target with one of its handlers, or with None for any handler.

    If only some handlers of a target are paused, None is replaced by each unpaused handler from *handlers_of*, which
    returns the handlers of the target's unroutable jobs (jobs that no node could run).
    """
    if not paused or EVERYTHING in paused:
        return [] if paused else skills
    divided = {scope.partition(":")[0] for scope in paused if ":" in scope}
    found: list[Skill] = []
    for target, handler in skills:
        if handler is not None:
            names: Iterable[str] = (handler,)
        elif target in divided and target not in paused:
            names = handlers_of(target)
        else:
            found += [] if target in paused else [(target, None)]
            continue
        found += [(target, name) for name in names if scope_over(target, name, paused) is None]
    return found
