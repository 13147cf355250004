// A crash at any moment of a save, on a disk that writes what was not synced in any order and in
// part: the target is byte for byte the old or the new file, and the new one once save() has
// returned.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "crash_states.h"
#include "saves.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

namespace espalier {
namespace {

using testing::Bytes;
using testing::Disk;
using testing::equal;
using testing::Format;
using testing::RecordingOps;
using testing::Step;
using testing::TemporaryFolder;

// A save that was recorded, and the files before and after it.
struct Recorded {
  Disk before;
  std::vector<Step> log;
  Bytes old_file;  // empty if there was none
  Bytes new_file;
};

// The situation and the options of a save.
struct Way {
  bool has_old;
  bool replace;
  bool only_links = false;   // the file system cannot rename exclusively
  bool needs_names = false;  // it has no files without a name
};
constexpr Way kWays[] = {{true, true},
                         {false, true},
                         {false, false},
                         {false, false, true},
                         {true, true, false, true},
                         {false, false, false, true}};

Recorded record(const Format& format, const Way& way, bool sync, unsigned threads) {
  const TemporaryFolder folder;
  Recorded recorded;
  if (way.has_old) {
    REQUIRE(format.save(folder / "file", testing::state_of(1), {.sync = false}));
    recorded.old_file = testing::read_whole(folder / "file");
    recorded.before.names["file"] = 0;
    recorded.before.files[0] = recorded.old_file;
  }
  RecordingOps ops(way.only_links, way.needs_names);
  REQUIRE(format.save(folder / "file", testing::state_of(2),
                      {.sync = sync, .replace = way.replace, .threads = threads, .ops = &ops}));
  recorded.log = ops.log();
  recorded.new_file = testing::read_whole(folder / "file");
  REQUIRE(recorded.new_file != recorded.old_file);
  return recorded;
}

// States that break a promise.
struct Broken {
  std::size_t neither = 0;  // the target is neither the old file nor the new one
  std::size_t lost = 0;     // save() had returned, and the target is not the new file
  std::size_t states = 0;
};

Broken explore(const Recorded& recorded) {
  Broken broken;
  broken.states = visit_crash_states(
      recorded.before, recorded.log, "file", [&](std::size_t steps, const Bytes* target) {
        const bool is_new = target != nullptr && equal(*target, recorded.new_file);
        const bool is_old =
            target == nullptr ? recorded.old_file.empty() : equal(*target, recorded.old_file);
        if (!is_new && !is_old) ++broken.neither;
        if (!is_new && steps == recorded.log.size()) ++broken.lost;
      });
  return broken;
}

TEST_CASE("After a crash the target is the old file or the new one") {
  std::size_t states = 0;
  for (const Format& format : testing::kFormats) {
    for (const Way& way : kWays) {
      for (const unsigned threads : {1u, 2u}) {
        CAPTURE(format.name);
        CAPTURE(way.has_old);
        CAPTURE(way.replace);
        CAPTURE(way.only_links);
        CAPTURE(way.needs_names);
        const Broken broken = explore(record(format, way, true, threads));
        CHECK(broken.neither == 0);
        CHECK(broken.lost == 0);
        states += broken.states;
      }
    }
  }
  CHECK(states > 1000);
  std::printf("%zu states after a crash\n", states);
}

// The same log with steps left out, as if the save did not take them.
Recorded without(Recorded recorded, Step::Kind kind) {
  std::erase_if(recorded.log, [&](const Step& step) { return step.kind == kind; });
  return recorded;
}

TEST_CASE("A save that does not sync is found out") {
  for (const Format& format : testing::kFormats) {
    for (const Way& way : kWays) {
      const Recorded recorded = record(format, way, true, 1);
      CHECK(explore(without(recorded, Step::Kind::kSync)).neither > 0);
      const Broken no_folder_sync = explore(without(recorded, Step::Kind::kSyncFolder));
      CHECK(no_folder_sync.neither == 0);
      CHECK(no_folder_sync.lost > 0);
    }
  }
}

TEST_CASE("A save that syncs too late is found out") {
  Recorded recorded = record(testing::kFormats[0], kWays[0], true, 1);
  const auto is = [](Step::Kind kind) {
    return [kind](const Step& step) { return step.kind == kind; };
  };
  const auto sync = std::find_if(recorded.log.begin(), recorded.log.end(), is(Step::Kind::kSync));
  const auto rename =
      std::find_if(recorded.log.begin(), recorded.log.end(), is(Step::Kind::kRename));
  REQUIRE(sync < rename);
  std::rotate(sync, sync + 1, rename + 1);
  const Broken broken = explore(recorded);
  CHECK(broken.neither > 0);
  CHECK(broken.lost == 0);
}

TEST_CASE("Without sync, the end of the process does no harm") {
  // The system lives on and has everything that it was told, so the only question is when.
  std::size_t moments = 0;
  for (const Format& format : testing::kFormats) {
    for (const Way& way : kWays) {
      Recorded recorded = record(format, way, false, 1);
      CHECK(explore(recorded).neither > 0);  // It does if the power goes.
      std::vector<Step> log;
      for (Step& step : recorded.log) {
        const int file = step.file;
        const bool is_data = step.is_data();
        log.push_back(std::move(step));
        if (is_data) log.push_back({.kind = Step::Kind::kSync, .file = file});
        if (!is_data) log.push_back({.kind = Step::Kind::kSyncFolder});
      }
      recorded.log = std::move(log);
      const Broken broken = explore(recorded);
      CHECK(broken.neither == 0);
      CHECK(broken.lost == 0);
      moments += recorded.log.size();
    }
  }
  CHECK(moments > 50);
}

}  // namespace
}  // namespace espalier
