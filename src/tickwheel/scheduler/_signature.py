"""
The signature of a task: converts arguments to a payload, keyed by name, and back.

The annotations are evaluated at the first call or the start of a scheduler, so types may be defined after the task.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, get_type_hints

from tickwheel.jobs.errors import InvalidJobError, MisfitError
from tickwheel.jobs.requests import check_names
from tickwheel.scheduler._codec import Codec
from tickwheel.targets import Firing

__all__ = ["Signature"]

_FIRING: Final = "firing"
_REST: Final = inspect.Parameter.VAR_KEYWORD


class Signature:
    """
    The parameters of *function*, the task called *name*. *shown* is the signature as text, for messages.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function
        signature = _signature_of(function)
        self._all = parameters = list(signature.parameters.values())
        for parameter in parameters:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                message = f"task {name!r} takes *{parameter.name}: a payload has arguments by name, so name each"
                raise TypeError(message)
        if parameters and parameters[0].name in ("self", "cls") and "." in getattr(function, "__qualname__", ""):
            message = f"task {name!r} is a method, and no payload holds its object: decorate a function"
            raise TypeError(message)
        self._firing = _firing_of(name, parameters)
        self._parameters = {each.name: each for each in parameters if each is not self._firing}
        self._own = signature.replace(
            parameters=list(self._parameters.values()), return_annotation=inspect.Signature.empty
        )
        self._rest = next((each.name for each in parameters if each.kind is _REST), None)
        self._codecs: dict[str, Codec] | None = None
        plain = [each.replace(annotation=inspect.Parameter.empty) for each in self._parameters.values()]
        self.shown = f"{name}{self._own.replace(parameters=plain)}"

    def prepare(self) -> None:
        if self._codecs is None:
            self._codecs = {name: self._codec_of(each) for name, each in self._parameters.items()}

    def payload(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self._firing is not None and _FIRING in kwargs:
            message = f"{self.shown} gets its firing when it runs: leave firing= out"
            raise TypeError(message)
        self.prepare()
        if self._rest is None:
            check_names(f"{self._name}.of", kwargs, self._parameters)
        try:
            bound = self._own.bind(*args, **kwargs)
        except TypeError as error:
            message = f"{self.shown}: {error}"
            raise TypeError(message) from None
        return {name: self._encoded(name, value) for name, value in self._named(bound).items()}

    def arguments(self, payload: Any, firing: Firing) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = self._decoded(payload)
        if self._firing is not None:
            values[_FIRING] = firing
        positional = [
            values.pop(each.name) if each.name in values else each.default
            for each in self._all
            if each.kind is inspect.Parameter.POSITIONAL_ONLY
        ]
        return tuple(positional), values

    def misfit(self, payload: Any) -> str | None:
        try:
            self._decoded(payload)
        except MisfitError as error:
            return str(error)
        return None

    def _encoded(self, name: str, value: Any) -> Any:
        try:
            return self._codec(name).encode(value)
        except ValueError as error:
            what = f"{self._name}.of: {name}"
            raise InvalidJobError(what, value, str(error)) from None

    def _decoded(self, payload: Any) -> dict[str, Any]:
        self.prepare()
        if not isinstance(payload, dict):
            raise MisfitError("payload", payload, "pass an object with the arguments by name, as " + self.shown)
        values: dict[str, Any] = {}
        for name, built in payload.items():
            if name not in self._parameters and self._rest is None:
                remedy = f"{self.shown} has no parameter {name!r}"
                raise MisfitError("payload", payload, remedy)
            try:
                values[name] = self._codec(name).decode(built)
            except ValueError as error:
                raise MisfitError(name, built, f"{error}, as {self.shown} takes it") from None
        for name, each in self._parameters.items():
            if name not in values and each.default is each.empty and each.kind is not _REST:
                remedy = f"{self.shown} needs {name!r}"
                raise MisfitError("payload", payload, remedy)
        return values

    def _named(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        values = dict(bound.arguments)
        return values if self._rest is None else values | values.pop(self._rest, {})

    def _codec(self, name: str) -> Codec:
        assert self._codecs is not None
        return self._codecs[name if name in self._codecs else self._rest or name]

    def _codec_of(self, parameter: inspect.Parameter) -> Codec:
        try:
            return Codec(_evaluated(self._function, parameter))
        except NameError as error:
            remedy = "define it at the top of its module, and import it there, not only if TYPE_CHECKING"
            reason = f"{error}: {remedy}"
        except (TypeError, SyntaxError, AttributeError) as error:
            reason = str(error)
        what = f"{self._name}: {parameter.name}"
        raise InvalidJobError(what, parameter.annotation, reason)


def _firing_of(name: str, parameters: list[inspect.Parameter]) -> inspect.Parameter | None:
    for place, each in enumerate(parameters):
        if each.name == _FIRING and each.kind is not _REST:
            if place and each.default is each.empty:
                message = f"task {name!r} takes firing as number {place + 1}: let it be the first, or give it a default"
                raise TypeError(message)
            return each
    return None


def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415  new in Python 3.14

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def _evaluated(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    # evaluated one by one, because names in other annotations may exist for type checkers only
    if parameter.annotation is parameter.empty:
        return Any

    def holder() -> None: ...

    holder.__annotations__ = {"value": parameter.annotation}
    return get_type_hints(holder, globalns=_globals_of(function), include_extras=True)["value"]


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    inner: Any = inspect.unwrap(function)
    while not isinstance(inner, FunctionType):
        before = inner
        inner = getattr(inner, "__func__", None) or getattr(inner, "func", None) or type(inner).__call__
        inner = inspect.unwrap(inner)
        if inner is before or not callable(inner):
            return vars(sys.modules[getattr(function, "__module__", None) or "builtins"])
    return inner.__globals__
