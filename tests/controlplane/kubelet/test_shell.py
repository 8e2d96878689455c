"""Tests of the shell interpreter: outcomes of scripts, and scripts with an unknown outcome."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.controlplane.kubelet.shell.interpreter import FOREVER, CommandOutcome, run_script
from shoal.controlplane.kubelet.shell.parser import UnknownOutcome, parse_script

PRESENT = "/data/there"


def ending(text: str, **variables: str) -> CommandOutcome:
    return run_script(parse_script(text), variables, _exists)


def _exists(path: str) -> bool:
    if not path.startswith("/data/"):
        raise UnknownOutcome(path)
    return path == PRESENT


ODD = """
    if [ $(expr ${INDEX} % 2) -ne 0 ]; then
        exit 1
    else
        exit 0
    fi
"""
ONCE = """
    if [[ -r /data/%s ]]
    then
        exit 0
    else
        touch /data/%s
        exit 42
    fi
"""
TRAP = """_term(){
	sleep 5
	exit 143
}
trap _term SIGTERM
while true; do
	sleep 1
done"""

SAME_AS_A_SHELL = [
    "exit 3", "true", "false", "! true", "! false", "false || true", "true && false || exit 7", "(( 1 ))x; exit 1",
    "if true; then exit 4; fi", "if false; then exit 4; fi", "if false; then exit 1; elif true; then exit 5; fi",
    "if [ a = b ]; then exit 1; else exit 6; fi", "x=5; exit $x", 'x="5"; exit "$((x * 2 + 1))"', "x=; [ \"$x\" = '' ]",
    "exit $((-7 / 2 + 10))", "exit $((-7 % 4 + 10))", "exit $(expr 7 / 2)", "exit $(expr 3 \\* 4)",
    "expr 0 > /dev/null",
    "i=0; while [ $i -lt 7 ]; do i=$((i + 1)); done; exit $i", "until [ 1 -eq 1 ]; do false; done",
    "trap : TERM; exit 3",
    "f() { exit 9; }; f", "f() { false; }; f; exit $?", "{ false; }", "x=$(echo 12); exit $x", "x=$(exit 3); exit $?",
    "test -n ''", "test -z ''", "[ 3 -ge 3 ]", "[ 3 -gt 3 ]", "[ ! x = x ]", "[ '' ]", "[ x ]", "[ a != b ]",
    "false; exit",
    "# nothing\nexit 2 # two", "exit \\\n 8", "exec false", "[ 10 -lt 9 ] || exit 11", ":", "echo 'a b'; false",
    "x=a; [ \"$x\" = a ] && [ ${x} != b ]", "if ! [ -n a ]; then exit 1; fi",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("sh") is None, reason="no sh")
def test_it_ends_as_a_real_shell_does() -> None:
    for text in SAME_AS_A_SHELL:
        try:
            told = ending(text).exit_code
        except UnknownOutcome:
            continue
        real = subprocess.run(["sh", "-c", text], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        assert (text, told) == (text, real.returncode)


def test_nearly_all_of_those_are_understood() -> None:
    unknown = []
    for text in SAME_AS_A_SHELL:
        try:
            ending(text)
        except UnknownOutcome:
            unknown.append(text)
    assert unknown == ["(( 1 ))x; exit 1", "expr 0 > /dev/null"]


def test_a_script_that_asks_for_its_index() -> None:
    assert [ending(ODD, INDEX=str(index)).exit_code for index in range(4)] == [0, 1, 0, 1]


def test_a_script_that_asks_for_a_file_and_makes_it() -> None:
    assert ending(ONCE % ("there", "there")) == CommandOutcome(0, 0)
    assert ending(ONCE % ("x-$I", "x-$I"), I="3") == CommandOutcome(0, 42, files=("/data/x-3",))
    assert ending("touch /data/a; test -f /data/a && exit 5") == CommandOutcome(0, 5, files=("/data/a",))


def test_a_loop_that_changes_nothing_goes_on_for_ever() -> None:
    assert ending("while true; do sleep 1; done").seconds == FOREVER
    assert ending("sleep 3; until false; do sleep 1; done; exit 1") == CommandOutcome(FOREVER, 0)
    assert ending("until [ -e /data/a ]; do sleep 2; touch /data/a; done; exit 3").seconds == 2


def test_a_trap_says_how_it_stops() -> None:
    assert ending(TRAP) == CommandOutcome(FOREVER, 0, on_sigterm=CommandOutcome(5, 143))
    assert ending("trap 'exit 0' TERM INT; sleep infinity").on_sigterm == CommandOutcome(0, 0)
    assert ending("trap '' TERM; sleep 9").on_sigterm == CommandOutcome(FOREVER, 137)
    assert ending("trap 'touch /data/a; exit 0' TERM; sleep 9") == CommandOutcome(9, 0, on_sigterm=CommandOutcome(0, 0))
    assert ending("trap 'exit 0' INT; sleep 9").on_sigterm is None
    assert ending("trap 'exit 0' TERM; trap - TERM; sleep 9").on_sigterm is None


@pytest.mark.parametrize(
    "text",
    [
        "", "exit $UNSET", "nginx", "sleep 1 &", "true | false", "echo a > b", "(exit 1)", "for i in 1; do true; done",
        "case a in a) true;; esac", "ls *", "echo ~", "echo `true`", "echo {a,b}", "if true", "if true; then fi",
        "[ -r /etc/passwd ]", "[ -d /data ]", "[ -r there ]", "touch x", "exit 256", "exit -1", "exit $((1 / 0))",
        "true &&",
        "exit $((2 ** 8))", "exit $((1 << 2))", "x=$((9223372036854775807 + 1))", "exit $((010))", "x=1 true", "; true",
        "x='a b'; [ $x = a ]", "i=0; while true; do i=$((i + 1)); done", "f() { f; }; f", "true() { true; }; true",
        "}", "fi", "a ;; b", "$(",
        "$((1",
        "${x", "${x:-1}", "echo $1", "echo $$", "echo \"", "while true; do ; done", ")", "echo )", "x=$(nginx)",
        "trap a EXIT",
        "{ " * 50 + "true" + "; }" * 50, "$(" * 50 + "true" + ")" * 50, "true;" * 5000, "exit $((" + "-" * 5000 + "1))",
    ],
)  # fmt: skip
def test_what_nobody_can_tell(text: str) -> None:
    with pytest.raises(UnknownOutcome):
        ending(text)


COMMANDS = [
    "true", "false", ":", "exit 3", "exit", "x=1", "x=$((x + 1))", "x=$(expr $x % 2)", "[ $x = 1 ]", "[ ! $x -gt 1 ]",
    "echo a", "$(echo false)", "exit $x", "x=$?", "y=$(false)", "$(false)", "exit $?", "f",
    "test -z \"$x\"", "echo 'a b' \"$x\"",
]  # fmt: skip
SCRIPTS = st.recursive(
    st.sampled_from(COMMANDS),
    lambda inner: st.one_of(
        st.builds("{0} && {1}".format, inner, inner),
        st.builds("{0} || {1}".format, inner, inner),
        st.builds("{0}; {1}".format, inner, inner),
        st.builds("{0}\n# said\n {1} # more".format, inner, inner),
        st.builds("! {0}".format, st.sampled_from(COMMANDS)),
        st.builds("{{ {0}; }}".format, inner),
        st.builds("if {0}; then {1}; fi".format, inner, inner),
        st.builds("if {0}\nthen {1}\nelse {2}\nfi".format, inner, inner, inner),
        st.builds("if {0}; then {1}; elif {2}; then {3}; fi".format, inner, inner, inner, inner),
        st.builds("y=$({0}); x=0".format, inner),
    ),
    max_leaves=8,
)


@pytest.mark.skipif(shutil.which("sh") is None, reason="no sh")
@settings(max_examples=100)
@given(SCRIPTS)
def test_any_script_ends_as_a_real_shell_ends_it_or_is_unknown(script: str) -> None:
    text = f"x=1; f() {{ false; }}\n{script}"
    try:
        told = ending(text).exit_code
    except UnknownOutcome:
        return
    real = subprocess.run(["sh", "-c", text], env={"PATH": os.environ["PATH"]}, capture_output=True, check=False)
    assert told == real.returncode, real.stderr


@given(st.text(alphabet="if then exit1;$(){}[]\"'\n&|!=-x/\\#done while tru", max_size=60))
def test_any_text_is_told_or_unknown(text: str) -> None:
    with suppress(UnknownOutcome):
        ending(text, x="1")
