"""Links lead somewhere, commands exist, and every block is run by a test or says why not."""

import re
import shlex
import shutil
import subprocess
import sys

import click
import pytest

from dp_pipeline.cli import main
from dp_pipeline.models import MODELS
from dp_pipeline_tests.pages.pages import (
    EXCUSE,
    ROOT,
    Block,
    anchors,
    blocks,
    links,
    pages,
    text_of,
    without_blocks,
)
from dp_pipeline_tests.pages.test_blocks import RUN_ELSEWHERE, RUN_HERE

SHOWN = ("text", "yaml", "sql", "zsh", "fish", "{toctree}")
"""Languages of blocks that nobody runs as they stand."""


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_to_a_file_and_to_a_heading_of_it(page: str):
    for target in links(page):
        name, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        assert path.is_file(), f"{page}: expected a file, got {target}"
        if anchor:
            linked = path.relative_to(ROOT).as_posix()
            assert anchor in anchors(linked), f"{page}: expected a heading, got {target}"


def test_headings_get_the_anchors_that_github_gives_them():
    assert "who-may-ask-the-pages" in anchors("docs/operating.md")
    assert "what-verify-checks" in anchors("docs/export.md")


@pytest.mark.parametrize("page", pages())
def test_every_block_is_only_shown_run_by_a_test_or_says_why_not(page: str):
    for block in blocks(page):
        where, language = f"{page}:{block.line}", block.language
        assert language in (*SHOWN, "bash", "python"), f"{where}: got the language {language!r}"
        is_known = not block.is_run or page in RUN_HERE or page in RUN_ELSEWHERE
        assert is_known, f"{where}: expected a test or a reason"


@pytest.mark.parametrize("page", RUN_ELSEWHERE)
def test_a_page_that_is_run_elsewhere_is_named_there(page: str):
    test = (ROOT / "dp_pipeline_tests" / RUN_ELSEWHERE[page]).read_text(encoding="utf-8")
    assert page.rpartition("/")[2] in test


@pytest.mark.parametrize("page", pages())
def test_a_reason_stands_below_a_block_and_names_its_commands(page: str):
    read = [block for block in blocks(page) if block.excuse]
    assert len(read) == text_of(page).count("*Not run by a test"), page
    for block in read:
        assert EXCUSE.fullmatch(block.excuse or ""), f"{page}:{block.line}: {block.excuse}"
        for command in block.excused:
            assert any(line.startswith(command) for line in block.text.splitlines()), command


def test_a_line_with_a_reason_is_left_out_and_the_others_are_not():
    line = "*Not run by a test, `ui`: it goes on until somebody stops it.*"
    block = Block("page.md", 1, "bash", "plan x\nui\nrun x\n", None, line)
    assert (block.excused, block.is_run, block.run_text) == (("ui",), True, "plan x\nrun x")
    whole = Block("page.md", 1, "bash", "ui\n", None, "*Not run by a test: it needs containers.*")
    assert not whole.is_run


def commands(page: str) -> list[str]:
    """`dp-pipeline …` of blocks and of the text between them, without what follows in a shell."""
    inline = re.findall(r"`(dp-pipeline [^`]+)`", re.sub(r"\n *", " ", without_blocks(page)))
    shells = [block.text for block in blocks(page) if block.language == "bash"]
    lines = "\n".join(text.replace("\\\n", "") for text in shells)
    found = re.findall(r"^dp-pipeline .*$|(?<=&& )dp-pipeline .*$", lines, re.MULTILINE)
    split = [re.split(r" && | \| | {2,}#| #", one)[0].rstrip() for one in found]
    return inline + split


def unknown(command: str) -> str | None:
    """The first word of a command that the program does not know."""
    words = shlex.split(re.sub(r"[\[\]…]", " ", command))[1:]
    here: click.Command = main
    for word in words:
        if word.startswith("--"):
            options = {name for param in here.params for name in param.opts + param.secondary_opts}
            passed_on = here.context_settings.get("ignore_unknown_options")
            if not passed_on and word.partition("=")[0] not in options | {"--help", "--version"}:
                return word
        elif isinstance(here, click.Group):
            subcommand = here.get_command(click.Context(here, resilient_parsing=True), word)
            if subcommand is None:
                return None if word.isupper() else word
            here = subcommand
    return None


@pytest.mark.parametrize("page", pages())
def test_every_command_that_page_names_is_there_with_its_options(page: str):
    wrong = {command: unknown(command) for command in commands(page) if unknown(command)}
    assert not wrong


def test_a_command_or_an_option_that_is_not_there_is_found():
    assert unknown("dp-pipeline plan trips --epsilon 0.5") is None
    assert unknown("dp-pipeline plan trips --eps 0.5") == "--eps"
    assert unknown("dp-pipeline data chek x.yaml") == "chek"


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_fits_one_screen_of_a_reader() -> None:
    assert len(README.split()) <= 900


def test_every_model_and_data_set_is_on_its_page() -> None:
    datasets = [path.stem for path in (ROOT / "dp_pipeline" / "datasets").glob("*.yaml")]
    for file, names in (("docs/models.md", MODELS), ("data/README.md", datasets)):
        page = (ROOT / file).read_text(encoding="utf-8")
        assert [name for name in names if f"`{name}`" not in page] == []


def test_the_page_of_keys_is_made_from_the_schema() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "docs/site/dataset_file.py"], capture_output=True, check=True
    )
    assert made.stdout == (ROOT / "docs/reference/dataset_file.md").read_bytes()


@pytest.mark.skipif(shutil.which("make") is None, reason="expected make, got none")
def test_an_installation_says_first_what_it_installs():
    words = ["make", "--dry-run", "--always-make", "--no-print-directory", ".venv/ready"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    first, *others = done.stdout.splitlines()
    assert first.startswith('echo "Installing the packages that constraints.txt names into .venv')
    assert "a minute or two" in first
    assert others[0] == "python3 -m venv .venv"
