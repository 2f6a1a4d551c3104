"""The folder of an export: whole or not at all, and over nothing but an earlier one."""

from pathlib import Path

import pytest

from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.export.contents import write_contents
from dp_pipeline.export.folder import files_of, replace_folder
from dp_pipeline.reporting.pages import card
from dp_pipeline_tests.export.samples import map_release

RELEASE = map_release()
OF = {"dataset": "squares", "model": "eug_kmeans"}


def write(folder: Path) -> None:
    write_contents(folder, RELEASE, card(RELEASE), "csv", day="2026-11-27")


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


def test_an_earlier_export_is_replaced_without_leftovers(tmp_path: Path) -> None:
    replace_folder(tmp_path / "deep" / "out", write, **OF)
    first = contents(tmp_path / "deep" / "out")
    (tmp_path / "deep" / "out" / "card.md").write_text("old", encoding="utf-8")
    replace_folder(tmp_path / "deep" / "out", write, **OF)
    assert contents(tmp_path / "deep" / "out") == first
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def a_file(path: Path) -> None:
    path.write_text("mine", encoding="utf-8")


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "mine.txt").write_text("mine", encoding="utf-8")


def a_link(path: Path) -> None:
    replace_folder(path.with_name("elsewhere"), write, **OF)
    path.symlink_to(path.with_name("elsewhere"))


def with_a_note(path: Path) -> None:
    replace_folder(path, write, **OF)
    (path / "note.txt").write_text("mine", encoding="utf-8")


@pytest.mark.parametrize("there", [a_file, a_folder, Path.mkdir, a_link, with_a_note])
def test_what_is_no_earlier_export_is_refused_by_name_and_stays(there, tmp_path: Path) -> None:
    target = tmp_path / "out"
    there(target)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DeclarationError, match=f"^{target} may only be an earlier"):
        replace_folder(target, write, **OF)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("other", [{"dataset": "rides"}, {"model": "htree_kmeans"}])
def test_an_export_of_another_model_is_refused(other: dict[str, str], tmp_path: Path) -> None:
    replace_folder(tmp_path / "out", write, **OF)
    before = contents(tmp_path / "out")
    with pytest.raises(DeclarationError, match="choose another folder"):
        replace_folder(tmp_path / "out", write, **{**OF, **other})
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("error", ["no space left", "not now"])
def test_an_export_that_fails_leaves_what_was_there(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_folder(tmp_path / "out", write, **OF)
    before, rename = contents(tmp_path / "out"), Path.rename

    def write_half(folder: Path) -> None:
        (folder / "half.csv").write_text("x", encoding="utf-8")
        if error == "no space left":
            raise OSError(error)

    def refuse(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError("not now")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match=error):
        replace_folder(tmp_path / "out", write_half, **OF)
    assert contents(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
