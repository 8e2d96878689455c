"""`kubectl_complete-shoal`: completion after `kubectl shoal`."""

from __future__ import annotations

import sys

import pytest

from shoal.cli import main
from shoal.cli.kubectl_complete import DIRECTIVE_FILES, DIRECTIVE_NO_FILES, complete


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["st"], ["status\tprints workers, clusters and workloads of the fleet", f":{DIRECTIVE_NO_FILES}"]),
        (["status", "-o", ""], ["text", "wide", "json", "yaml", f":{DIRECTIVE_NO_FILES}"]),
        (
            ["join-token", "delete", "--k"],
            ["--kubeconfig\tKubeconfig of the hub. [$SHOAL_KUBECONFIG]", f":{DIRECTIVE_NO_FILES}"],
        ),
        (["up", "--data-dir", ""], [f":{DIRECTIVE_FILES}"]),
        (["status", "nothing", ""], [f":{DIRECTIVE_NO_FILES}"]),
    ],
)
def test_words_and_what_they_mean(words: list[str], lines: list[str]) -> None:
    assert complete(main.shoal, words) == lines


def test_every_command_is_offered_where_nothing_is_typed_yet() -> None:
    for words in ([], [""]):
        assert [line.partition("\t")[0] for line in complete(main.shoal, words)][:-1] == list(main.COMMANDS)


def test_it_is_the_same_program_by_another_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl_complete-shoal", "top", "--on"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().out) == (0, "--once\tPrint everything once and exit.\n:4\n")
