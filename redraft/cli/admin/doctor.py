"""The command `redraft doctor`, which checks all parts of an installation and prints the settings."""

from operator import attrgetter

import typer
from rich.text import Text

from redraft.cli import options, output, sessions
from redraft.cli.exit_codes import Exit

_SIGNS = {"ok": ("✓", "green"), "note": ("○", "dim"), "broken": ("✗", "red")}


def doctor(*, as_json: options.AsJson = False) -> None:
    """Check all parts of the installation, and print the settings.

    The command checks the settings, the disk, the database, the workers, the broker and the models. It prints a remedy
    for each problem.

    Exit codes: 0 all parts work; 1 a part does not work.
    """
    from redraft.cli.admin import diagnostics
    from redraft.operations.admin.configuration import in_lines, settings_in_effect

    settings = sessions.load_settings()
    in_effect = settings_in_effect(settings)
    findings = diagnostics.diagnose(settings)
    is_well = all(finding.state != "broken" for finding in findings)
    if as_json:
        output.write_json(
            {
                "ok": is_well,
                "checks": findings,
                "settings": [{"name": each.name, "value": each.value, "origin": each.origin} for each in in_effect],
            }
        )
    else:
        for finding in findings:
            sign, style = _SIGNS[finding.state]
            line = Text.assemble((f"{sign} {finding.name:<12}", style), output.styled(finding.detail))
            output.show(line)
            if finding.advice:
                output.show(f"  {'':<12}→ {finding.advice}", "bold" if finding.state == "broken" else "dim")
        output.show("")
        # The last column is cut if the terminal is narrow; `--json` has the whole values
        columns = {"setting": attrgetter("name"), "from": attrgetter("origin"), "value": attrgetter("value")}
        output.show_table(in_lines(settings, in_effect), columns)
    if not is_well:
        raise typer.Exit(Exit.ERROR)
