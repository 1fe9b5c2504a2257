"""``idcontrol replay``: ask a controller for its torques in the recorded states of a walk."""

from pathlib import Path

import click

from idcontrol.cli.console import print_json
from idcontrol.cli.options import CONTROLLER, FOLDER, JSON, OUT


@click.command("replay", short_help="Ask another controller for its torques in a run.")
@click.argument("folder", type=FOLDER, metavar="RUN")
@CONTROLLER
@OUT
@JSON
def command(folder: Path, controller: str | None, out: Path | None, as_json: bool) -> None:
    """Ask a controller for its torques in the recorded states of the walk in RUN; compare them with the record.

    By default, the run's controller is asked. The metric equal_share is the share of ticks with bitwise equal torques.
    """
    from idcontrol.cli.run import show_metrics
    from idcontrol.experiments.replayed import record
    from idcontrol.record.recording import fresh_folder, load
    from idcontrol.scenes.replay import replay

    run = load(folder)
    chosen = controller or str(run.config.get("controller"))
    replayed = replay(run, chosen)
    metrics = record(out or fresh_folder("runs", f"replay-{folder.resolve().name}"), run, chosen, replayed)
    if as_json:
        print_json(metrics)
    else:
        show_metrics(metrics)
