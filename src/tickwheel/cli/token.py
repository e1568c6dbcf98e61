from __future__ import annotations

import time
from pathlib import Path

import click

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.values import DurationRange

__all__ = ["command"]


@click.command("token")
@click.argument("access", type=click.Choice(["read", "write"]))
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="Add its hash to this file of tokens.")
@click.option("--comment", default="", help="Owner of the token; written after the hash.")
@click.option("--prefix", help="Only for keys that begin with this; it sees nothing of the others.")
@click.option(
    "--expires",
    type=DurationRange(0, is_least_open=True),
    help="Time for which the token is valid, such as 90d or 12h; by default without end.",
)
def command(*, access: str, file: Path | None, comment: str, prefix: str | None, expires: float | None) -> None:
    """
    Make a token with the right to read, or to read and write.

    The token is printed once. The service gets only its hash, as a line in the file that 'serve --tokens FILE' reads.
    """
    if prefix == "":  # for example, from a shell variable that is not set
        raise Refused(ExitCode.USAGE, "--prefix is empty: write what the keys begin with, or leave it out for all keys")
    from tickwheel.service.tokens import Access, Token, digest_of, new_token  # noqa: PLC0415  the service's libraries are an extra

    token = new_token()
    until = None if expires is None else time.time() + expires
    line = Token(Access[access.upper()], digest_of(token), " ".join(comment.split()), prefix or "", until).line()
    if file is not None:
        try:
            file.touch(mode=0o600)  # because a writer of the file can add tokens
            begin = "" if _ends_a_line(file) else "\n"
            with file.open("a", encoding="utf-8") as tokens:
                tokens.write(f"{begin}{line}\n")
        except OSError as error:
            raise Refused(
                ExitCode.FAILED, f"{str(file)!r} cannot be written ({error.strerror}): name another"
            ) from None
    click.echo(token)
    if file is None:
        click.echo(f"add this line to the file of tokens:\n{line}", err=True)


def _ends_a_line(file: Path) -> bool:
    try:
        return file.read_bytes()[-1:] in {b"", b"\n"}
    except PermissionError:
        return False  # unknown: at worst, an empty line precedes the token
