// A runc for machines whose root lacks CAP_SYS_RESOURCE: it takes that capability, the rlimits and oom scores below
// zero out of what a container or an exec is to be started with, then becomes the next runc of PATH.
//
// When it kills a container, it also thaws what is frozen in it: in cgroup v1 a frozen process does not end, and a runc
// inside a container (of a kind node) freezes what it starts for a moment, which may be its last.
package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const lacking = "CAP_SYS_RESOURCE"

func main() {
	if file, isBundle := asked(os.Args[1:]); file != "" {
		if err := narrow(file, isBundle); err != nil {
			fatal(err)
		}
	}
	real, err := next()
	if err != nil {
		fatal(err)
	}
	if state, found := killed(os.Args[1:]); found {
		os.Exit(kill(real, state))
	}
	fatal(syscall.Exec(real, append([]string{"runc"}, os.Args[1:]...), os.Environ()))
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "runc:", err)
	os.Exit(1)
}

// asked returns the file that says what is started: a bundle's config.json, or the process of an exec.
func asked(args []string) (file string, isBundle bool) {
	switch {
	case slices.Contains(args, "exec"):
		return value(args, "--process", "-p"), false
	case slices.Contains(args, "create"), slices.Contains(args, "run"), slices.Contains(args, "restore"):
		return filepath.Join(value(args, "--bundle", "-b"), "config.json"), true
	}
	return "", false
}

// value returns what a flag was given.
func value(args []string, names ...string) string {
	for i, arg := range args {
		name, given, equals := strings.Cut(arg, "=")
		switch {
		case !slices.Contains(names, name):
		case equals:
			return given
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

func narrow(file string, isBundle bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// The outer fields stay as they were written: a number of 64 bits keeps its digits.
	bundle, process := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	inner := json.RawMessage(text)
	if isBundle {
		if err := json.Unmarshal(text, &bundle); err != nil {
			return err
		}
		inner = bundle["process"]
	}
	if inner == nil {
		return nil
	}
	if err := json.Unmarshal(inner, &process); err != nil {
		return err
	}
	delete(process, "rlimits")
	var score int
	if json.Unmarshal(process["oomScoreAdj"], &score) == nil && score < 0 {
		delete(process, "oomScoreAdj")
	}
	var capabilities map[string][]string
	if json.Unmarshal(process["capabilities"], &capabilities) == nil && capabilities != nil {
		for name, list := range capabilities {
			capabilities[name] = slices.DeleteFunc(list, func(held string) bool { return held == lacking })
		}
		if process["capabilities"], err = json.Marshal(capabilities); err != nil {
			return err
		}
	}
	if inner, err = json.Marshal(process); err != nil {
		return err
	}
	if isBundle {
		bundle["process"] = inner
		if inner, err = json.Marshal(bundle); err != nil {
			return err
		}
	}
	return os.WriteFile(file, inner, 0o600)
}

type state struct {
	Process int               `json:"init_process_pid"`
	Cgroups map[string]string `json:"cgroup_paths"`
}

// killed returns the state of the container that is to be sent SIGKILL, as the real runc keeps it.
func killed(args []string) (container state, found bool) {
	verb := slices.Index(args, "kill")
	if verb < 0 || !slices.ContainsFunc(args[verb:], isSigkill) {
		return container, false
	}
	root := value(args[:verb], "--root")
	for _, name := range args[verb+1:] {
		text, err := os.ReadFile(filepath.Join(root, name, "state.json"))
		if err == nil && json.Unmarshal(text, &container) == nil && container.Cgroups["freezer"] != "" {
			return container, true
		}
	}
	return container, false
}

func isSigkill(word string) bool { return word == "9" || word == "KILL" || word == "SIGKILL" }

// kill lets the real runc send its signal, and thaws until the container's first process has ended, for some seconds.
func kill(real string, container state) int {
	command := exec.Command(real, os.Args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		fatal(err)
	}
	_ = command.Wait()
	for range 100 {
		thaw(container.Cgroups["freezer"])
		if hasEnded(container.Process) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return command.ProcessState.ExitCode()
}

func thaw(folder string) {
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "freezer.state" {
			// A cgroup that has gone meanwhile has nothing frozen.
			_ = os.WriteFile(path, []byte("THAWED"), 0o644)
		}
		return nil
	})
}

// hasEnded tells whether a process is gone, or waits only for its parent to notice.
func hasEnded(process int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	_, fields, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(fields, "Z")
}

// next returns the runc that PATH has beside this one.
func next() (string, error) {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		file := filepath.Join(folder, "runc")
		if found, err := os.Stat(file); err == nil && found.Mode()&0o111 != 0 && !os.SameFile(found, own) {
			return file, nil
		}
	}
	return "", fmt.Errorf("PATH has no other runc: %s", os.Getenv("PATH"))
}
