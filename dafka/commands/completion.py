"""`dafka completion`: what makes a shell complete `dafka`'s commands and options."""

import click
from click.shell_completion import get_completion_class

VARIABLE = "_DAFKA_COMPLETE"
"""By this the shell asks, as Click has it."""

HELP = """Print what makes SHELL complete commands and options.

\b
bash:  dafka completion bash > ~/.local/share/bash-completion/completions/dafka
zsh:   dafka completion zsh > ~/.zfunc/_dafka      # with fpath+=~/.zfunc before compinit
fish:  dafka completion fish > ~/.config/fish/completions/dafka.fish
"""


@click.command(help=HELP, short_help="Print shell completion for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the script."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "dafka", VARIABLE).source())
