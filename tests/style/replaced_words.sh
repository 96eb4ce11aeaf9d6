#!/usr/bin/env bash
# Fails on words that docs/glossary.md has replaced, in identifiers, comments,
# texts and docs. Each of these words had one meaning only, so no use of it is
# right.
set -euo pipefail
if ! git ls-files --error-unmatch CMakeLists.txt >/dev/null 2>&1; then
  echo "skipped: git lists no files here"
  exit 77
fi

# All files but those that may use the old words, because they explain them or are
# data.
files=(. ':!tests/style' ':!docs/glossary.md' ':!docs/decisions' ':!docs/changes'
  ':!tests/fuzz/corpus' ':!LICENSE')
# The labels of the authentication are constants of the protocol, so they keep old
# words.
labels='troupe-[0-9]+ (dialer|listener) letter'

# replaced <new word> <old word>...: an old word is found as a whole word and as a
# part of an identifier: crew, crew_options, make_crew, CrewTest.
news=() patterns=() words=()
replaced() {
  local old begin=''
  news+=("$1")
  shift
  for old in "$@"; do
    words+=(-e "$old")
    begin+=${begin:+|}"(^|[^A-Za-z])$old(s|ed|ing)?(\$|[^a-z])"
    begin+="|${old^}(s|ed|ing)?(\$|[^a-z])"
  done
  patterns+=("$begin")
}

replaced "replica group" crew
replaced "local agent" steward
replaced "run barrier" muster
replaced "rendezvous" roster
replaced "local_roles" household
replaced "step_commit::state_machine" ledger
replaced "configure, or the word of the thing" seat
replaced "world" company
replaced "step window" lease wide_lease
replaced "skeleton" gateway
replaced "service router or acceptor" door doorkeeper
replaced "client or pending connection" guest stranger
replaced "peer table" hall
replaced "multiplexer" switchboard
replaced "failure detector" vigil
replaced "event notifier" bell
replaced "message stream" talk
replaced "write queue or message sender" outbox
replaced "packet" parcel
replaced "packet transport" courier
replaced "contribution" tree_part
replaced "reduction" tree_sum adder
replaced "wait report" blame
replaced "wait condition" wish
replaced "max_sleep" nap
replaced "shutdown timeout" farewell
replaced "completion queue" work_desk desk
replaced "step registry" step_book
replaced "fault injector" fault_seam fault_dice
replaced "drain_timeout or max_final_output" last_words
replaced "zero-copy" lent lend
replaced "the party by its name" whoever nobody somebody everybody his him
replaced "fix" mend

# One pass over all files finds the lines with any of the letters.
lines=$(git grep -n -I -i -F "${words[@]}" -- "${files[@]}" | grep -v -E "$labels" || true)
status=0
for i in "${!news[@]}"; do
  if grep -E "^[^:]*:[0-9]*.*(${patterns[i]})" <<<"$lines"; then
    echo "^ use ${news[i]} (docs/glossary.md)"
    status=1
  fi
done
exit $status
