// A program that answers like `astatide measure`, with times that follow from the text of the schedule: tests say what
// becomes of which candidate.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

namespace astatide::testing {

/// A shell script in `folder`. `cases` are branches of `case "$schedule" in`, over the text of a candidate, that run
/// before it answers: `*"i: 48"*) kill -SEGV $$;;`. A candidate takes a tenth of a millisecond for each row of its tile
/// of i beyond 32 or below it, and one millisecond. Schedules that are asked for together have their turns one after
/// the other. Each is timed 5 times.
inline std::string write_fake_measurer(const std::filesystem::path& folder, const std::string& name,
                                       const std::string& cases = "") {
  const std::filesystem::path path = folder / name;
  write_bytes(path, R"(#!/bin/sh
samples() {
  tile=$(printf '%s' "$1" | sed -n 's/.*tile: {i: \([0-9]*\).*/\1/p')
  away=$((tile > 32 ? tile - 32 : 32 - tile))
  time=$((10 + away))
  printf '%s.%s' $((time / 10)) $((time % 10))
  for n in 2 3 4 5; do printf ',%s.%s' $((time / 10)) $((time % 10)); done
}
while IFS= read -r line; do
  echo x >> ")" + (folder / "asked").string() +
                        R"("
  against=${line%%\"algorithm\":*}
  before=""
  case "$against" in *target*) before=$(samples "$against");; esac
  rest=${line#*\"schedule\":}
  turns=no
  case "$line" in
    *\"together\":\[\]*) rest="${rest%%\",\"seed\"*}\",";;
    *) rest="${rest#*\"together\":[}"; rest="${rest%]*},"; turns=yes;;
  esac
  turn=0
  answers=""
  while [ -n "$rest" ]; do
    schedule=${rest%%\",*}
    rest=${rest#*\",}
    if [ $turns = yes ]; then echo "{\"turn\":$turn}"; fi
    turn=$((turn + 1))
    case "$schedule" in
)" + cases + R"(
      *) ;;
    esac
    answers="$answers{\"samples_ms\":[$(samples "$schedule")],\"against_ms\":[$before],\"registers\":168,\"spill_bytes\":64,\"shared_bytes\":0,\"method\":\"a formula\"}\n"
  done
  printf '%b' "$answers"
done
)");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

}  // namespace astatide::testing
