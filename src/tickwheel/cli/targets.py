"""
Targets that are configured by `--target NAME=URL`, or by environment variables, which process listings do not show.

    TICKWHEEL_TARGET_RABBITMQ=amqp://user:password@localhost/     the target "rabbitmq"
    TICKWHEEL_TARGET_CELERY=shop.worker:app                       an object of a module: an application, a broker, or a
                                                                  target that you have written
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Final

from tickwheel.cli.exits import ExitCode, Refused, exit_code_of
from tickwheel.cli.modules import imported
from tickwheel.errors import TickwheelError
from tickwheel.targets import Target, make_target, shown_target

__all__ = ["VARIABLE", "check_name", "configured", "in_environment", "made", "shown"]

VARIABLE: Final = "TICKWHEEL_TARGET_"
"""Prefix of the environment variables that define targets; the target's name follows, in capitals."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_WORD: Final = re.compile(r"[\w.-]{1,64}")
_OBJECT: Final = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_BUILT_IN: Final = ("handler", "log", "pull")
_EXAMPLE: Final = "rabbitmq=amqp://localhost/"
_KINDS: Final = {
    "send_task": ("celery", "CeleryTarget"),
    "declare_actor": ("dramatiq", "DramatiqTarget"),
    "kick": ("taskiq", "TaskiqTarget"),
    "connection_pool": ("rq", "RqTarget"),
}
"""Module and class of the target for each kind of application or broker. Each key is an attribute of this kind only."""


def configured(options: Iterable[str]) -> dict[str, str]:
    """
    Return the definitions of targets from the *options* and the environment, keyed by name. Options take precedence.

    Raise `Refused` if a name is invalid or repeated. The message shows no value, because a value may contain a
    password.
    """
    named: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not _NAME.fullmatch(name):
            remedy = f"write a name in small letters, '=', and a URL, such as --target {_EXAMPLE}"
            what = name if equals and _WORD.fullmatch(name) else shown(name) if equals else "***"
            raise Refused(ExitCode.USAGE, f"--target {what!r} names no target: {remedy}")
        if name in named:
            raise Refused(ExitCode.USAGE, f"--target {name!r} is there twice: give each a name of its own")
        named[name] = value
    found = in_environment(os.environ) | named
    for name in found:
        check_name(name)
    return found


def check_name(name: str) -> None:
    if name in _BUILT_IN:
        raise Refused(ExitCode.USAGE, f"the target {name!r} is built in: give yours another name")


def in_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        variable.removeprefix(VARIABLE).lower(): value
        for variable, value in environ.items()
        if variable.startswith(VARIABLE) and value
    }


def made(named: Mapping[str, str], *, has_to_run: bool = False) -> dict[str, Target]:
    return {name: _made(name, value, has_to_run=has_to_run) for name, value in named.items()}


def shown(value: str) -> str:
    return value if _OBJECT.fullmatch(value) else shown_target(value)


def _made(name: str, value: str, *, has_to_run: bool) -> Target:
    try:
        if match := _OBJECT.fullmatch(value):
            return _of_object(name, match["module"], match["name"])
        return make_target(value, has_to_run=has_to_run)
    except TickwheelError as error:
        raise Refused(exit_code_of(error), f"the target {name!r} cannot be made: {error}") from None


def _of_object(target: str, module: str, name: str) -> Target:
    found: Any = getattr(imported(module, f"the target {target!r}: the module"), name, None)
    if hasattr(found, "resolve"):
        ours: Target = found
        return ours
    for method, (room, kind) in _KINDS.items():
        if hasattr(found, method):
            make: Callable[[Any], Target] = getattr(import_module(f"tickwheel.targets.{room}"), kind)
            return make(found)
    remedy = "name an application of Celery, a broker of Dramatiq or taskiq, a redis.Redis for RQ, or a target"
    raise Refused(ExitCode.USAGE, f"the target {target!r} cannot be made of {module}:{name}: {remedy}")
