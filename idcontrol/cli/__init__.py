"""The command ``idcontrol``: one module per command.

Exit status: 0 done; 1 the run finished but its task failed, or a self-check failed; 2 unusable arguments or input, with
one line on stderr; 3 an internal error, with one line that names the file of the traceback; 128 plus the number of the
signal that stopped the command. ``--json`` prints one JSON object on stdout and nothing else; progress goes to stderr.

Slow imports are inside the functions of the commands, so ``idcontrol --help`` is fast.
"""

from collections.abc import Sequence

import click

from idcontrol.cli import (
    bench,
    bus,
    check,
    commission,
    compare,
    completion,
    doctor,
    export,
    identify,
    league,
    listing,
    loop,
    replay,
    report,
    run,
    runs,
    trust,
    view,
    warmup,
)
from idcontrol.cli.console import DONE, INTERRUPTED, UNUSABLE, print_any_text, say
from idcontrol.cli.faults import RunFault, Stopped, report_fault
from idcontrol.config.places import described
from idcontrol.errors import IdControlError, Terminated
from idcontrol.record.interrupts import ctrl_c_is_heard, sigterm_is_heard

__all__ = ["cli", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Args:
        arguments: Words of the command line; None for the arguments of the process.
    """
    print_any_text()
    try:
        with ctrl_c_is_heard(), sigterm_is_heard():
            status = cli.main(args=arguments, prog_name="idcontrol", standalone_mode=False)
        return status if isinstance(status, int) else DONE
    except click.Abort:
        return say("stopped by Ctrl-C", INTERRUPTED)
    except Terminated as stop:
        return say("stopped by SIGTERM", stop.status)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "idcontrol"
        return say(f"{error.format_message()} (see {command} --help)", UNUSABLE)
    except click.ClickException as error:
        return say(error.format_message(), UNUSABLE)
    except IdControlError as error:
        return say(described(error), UNUSABLE)
    except Stopped as stop:
        return say(str(stop), stop.status)
    except RunFault as fault:
        return report_fault(fault.__cause__ or fault, fault.folder)
    except Exception as error:  # any other error is internal: errors of the input were handled above
        return report_fault(error, None)


GROUPS = {
    "Start": (listing, run, compare, loop, bus, commission),
    "Look": (runs, report, view, replay, export),
    "Check": (check, doctor, trust),
    "Measure": (identify, bench, league),
    "Set up": (warmup, completion),
}
"""The commands, in the order and under the headings of the help."""


class Grouped(click.Group):
    """A group whose help lists its commands under headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each heading, followed by its commands."""
        width = max(map(len, self.commands))
        for heading, modules in GROUPS.items():
            with formatter.section(heading):
                room = formatter.width - width - 6
                named = [(str(module.command.name), module.command) for module in modules]
                formatter.write_dl([(name.ljust(width), each.get_short_help_str(room)) for name, each in named])


@click.group(cls=Grouped, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="idcontrol", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Motor torques for robots in contact: run and inspect experiments, check robots."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for modules in GROUPS.values():
    for module in modules:
        cli.add_command(module.command)
