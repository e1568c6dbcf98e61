"""
`tickwheel token`: make a token for a service.
"""

from __future__ import annotations

from pathlib import Path

import click

from tickwheel.cli.exits import ExitCode, Refused

__all__ = ["command"]


@click.command("token")
@click.argument("access", type=click.Choice(["read", "write"]))
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="Add its hash to this file of tokens.")
@click.option("--comment", default="", help="Whose token it is; written after the hash.")
def command(access: str, file: Path | None, comment: str) -> None:
    """
    Make a token that allows to read, or to read and write.

    It is printed once. The service gets only its hash: a line in the file that 'serve --tokens FILE' reads.
    """
    from tickwheel.service.tokens import digest_of, new_token  # noqa: PLC0415  the service's libraries are an extra

    token = new_token()
    line = f"{access} {digest_of(token)}" + (f"  # {' '.join(comment.split())}" if comment else "")
    if file is not None:
        try:
            file.touch(mode=0o600)  # write access is enough to add tokens
            with file.open("a", encoding="utf-8") as tokens:
                tokens.write(f"{line}\n")
        except OSError as error:
            raise Refused(
                ExitCode.FAILED, f"{str(file)!r} cannot be written ({error.strerror}): name another"
            ) from None
    click.echo(token)
    if file is None:
        click.echo(f"add this line to the file of tokens:\n{line}", err=True)
