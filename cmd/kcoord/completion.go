package main

import (
	"fmt"
	"io"
	"strings"
)

// completion prints a script that completes commands and flags in a shell.
func completion(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		return fail(stderr, exitUsage, "completion takes one shell: bash, zsh or fish")
	}
	switch args[0] {
	case "bash":
		fmt.Fprint(stdout, bashCompletion())
	case "zsh":
		fmt.Fprint(stdout, "#compdef kcoord\nautoload -U +X bashcompinit && bashcompinit\n"+bashCompletion())
	case "fish":
		fmt.Fprint(stdout, fishCompletion())
	default:
		return fail(stderr, exitUsage, "no completion for %q; there are bash, zsh and fish", args[0])
	}
	return exitOK
}

const commands = "serve health dump version completion help"

func bashCompletion() string {
	var cases, flags strings.Builder
	for _, row := range serveFlags {
		flags.WriteString(" --" + row.name)
		switch {
		case len(row.words) > 0:
			fmt.Fprintf(&cases, "    --%s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return;;\n", row.name, strings.Join(row.words, " "))
		case row.value == "FILE" || row.value == "DIR":
			fmt.Fprintf(&cases, "    --%s) COMPREPLY=($(compgen -f -- \"$cur\")); return;;\n", row.name)
		case row.value != "":
			fmt.Fprintf(&cases, "    --%s) return;;\n", row.name)
		}
	}
	return `_kcoord() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
  case "$prev" in
    completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur")); return;;
` + cases.String() + `  esac
  case "${COMP_WORDS[1]}" in
    dump) COMPREPLY=($(compgen -W "--json --batches" -f -- "$cur")); return;;
    health|version|completion|help) [ "$COMP_CWORD" = 1 ] || return;;
  esac
  if [ "$COMP_CWORD" = 1 ] && [ "${cur#-}" = "$cur" ]; then
    COMPREPLY=($(compgen -W "` + commands + `" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "` + strings.TrimSpace(flags.String()) + `" -- "$cur"))
  fi
}
complete -F _kcoord kcoord
`
}

func fishCompletion() string {
	var b strings.Builder
	b.WriteString("complete -c kcoord -f\n")
	fmt.Fprintf(&b, "complete -c kcoord -n __fish_use_subcommand -a %q\n", commands)
	b.WriteString("complete -c kcoord -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n")
	b.WriteString("complete -c kcoord -n '__fish_seen_subcommand_from dump' -F -l json -l batches\n")
	for _, row := range serveFlags {
		fmt.Fprintf(&b, "complete -c kcoord -l %s -d %q", row.name, row.doc)
		switch {
		case len(row.words) > 0:
			fmt.Fprintf(&b, " -x -a %q", strings.Join(row.words, " "))
		case row.value == "FILE" || row.value == "DIR":
			b.WriteString(" -r -F")
		case row.value != "":
			b.WriteString(" -x")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
