// Every system call of a save fails, in every way, one at a time and from there on: the target is
// byte for byte the old or the new file, as the result says, and nothing is left behind.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>

#include "faulty_ops.h"
#include "saves.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <sys/stat.h>

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::Bytes;
using testing::Call;
using testing::equal;
using testing::Fault;
using testing::FaultyOps;
using testing::Format;
using testing::read_whole;
using testing::TemporaryFolder;

constexpr int kErrors[] = {ENOSPC, EDQUOT, EFBIG, EIO, EINTR, EMFILE, EROFS, EACCES};

// The situation and the options of a save.
struct Situation {
  bool has_old = false;
  bool replace = true;
  bool sync = true;
  unsigned threads = 1;
  bool only_links = false;  // the file system cannot rename exclusively
  bool cannot_clone = false;
  bool needs_names = false;  // the file system has no files without a name
};

constexpr Situation kSituations[] = {
    {.has_old = false, .replace = true},
    {.has_old = true, .replace = true},
    {.has_old = false, .replace = false, .cannot_clone = true},
    {.has_old = true, .replace = true, .sync = false},
    {.has_old = false, .replace = false, .sync = false},
    {.has_old = false, .replace = false, .only_links = true},
    {.has_old = true, .replace = true, .threads = 2},
    {.has_old = true, .replace = true, .threads = 2, .cannot_clone = true},
    {.has_old = true, .replace = true, .needs_names = true},
    {.has_old = false, .replace = false, .needs_names = true},
};

SaveOptions options_for(const Situation& situation, FileOps& ops) {
  return {.sync = situation.sync,
          .replace = situation.replace,
          .threads = situation.threads,
          .ops = &ops};
}

std::string code_of(const Result<void>& result) {
  return result ? "ok" : std::string(to_string(result.error().code));
}

// The code that a save must end with when this call is the first that fails.
std::string expected_code(Call call, const Fault& fault, const Situation& situation) {
  const bool is_interrupt = fault.error == EINTR;
  switch (call) {
    case Call::kOpenFolder:  // EACCES: it may be one that cannot be listed
      return is_interrupt || (fault.error == EACCES && !fault.lasting) ? "ok" : "io_error";
    case Call::kOpenOld:  // EACCES: its ACL stays unknown, and the new file is for its owner alone
      return is_interrupt || (fault.error == EACCES && !fault.lasting) ? "ok" : "io_error";
    case Call::kTryRename:  // It can be a link.
      return fault.lasting ? "io_error" : "ok";
    case Call::kOpenNameless:  // It can have a name from the start.
    case Call::kTryName:
    case Call::kUnlinkNamed:
    case Call::kLock:  // There may be none, or the file goes unlocked for a moment.
    case Call::kDuplicate:
    case Call::kHide:
    case Call::kGetAcl:
    case Call::kRemoveAcl:
    case Call::kCloseOld:
    case Call::kUnlinkTried:
    case Call::kClone:
    case Call::kCopy:  // The bytes can be written.
      return fault.lasting ? "io_error" : "ok";
    case Call::kCreate:
    case Call::kChangeMode:
    case Call::kTruncate:
    case Call::kWrite:
      return is_interrupt ? "ok" : "io_error";
    case Call::kAllocate:  // only a first try at what writing does anyway
      return fault.lasting || fault.error == ENOSPC || fault.error == EDQUOT ? "io_error" : "ok";
    case Call::kUnlink:  // after linkat(): the target is in place
      return fault.lasting && situation.sync ? "durability_unknown" : "ok";
    case Call::kSyncFolder:
      return "durability_unknown";
    case Call::kUnlock:
    case Call::kCloseFolder:
      return "ok";
    case Call::kStatFile:  // of a new file, to hide it as far as that is possible
      return fault.lasting || situation.has_old ? "io_error" : "ok";
    case Call::kStatTarget:
    case Call::kTryLink:
    case Call::kSyncFile:
    case Call::kName:
    case Call::kCloseFile:
    case Call::kRename:
    case Call::kRenameExclusively:
    case Call::kLink:
      return "io_error";
  }
  return "?";
}

// A save's bytes without any fault.
Bytes saved_bytes(const Format& format, const Value& state) {
  const TemporaryFolder folder;
  REQUIRE(format.save(folder / "file", state, {.sync = false}));
  Bytes bytes = read_whole(folder / "file");
  REQUIRE_FALSE(bytes.empty());
  return bytes;
}

struct Counts {
  std::size_t saves = 0;
  std::set<Call> calls;
};

// One save with one fault. Returns whether the fault was met.
bool try_fault(const Format& format, const Situation& situation, const Fault& fault,
               const Value& state, const Bytes& before, const Bytes& after, Counts& counts) {
  const TemporaryFolder folder;
  const fs::path target = folder / "file";
  if (situation.has_old) REQUIRE(testing::write_whole(target, before));
  FaultyOps ops(fault);
  ops.cannot_rename_exclusively = situation.only_links;
  ops.cannot_clone = situation.cannot_clone;
  ops.needs_names = situation.needs_names;
  const auto saved = format.save(target, state, options_for(situation, ops));
  CAPTURE(fault.at);
  CAPTURE(fault.error);
  CAPTURE(fault.lasting);
  CHECK(ops.still_open() == 0);
  if (!ops.hit()) {
    CHECK(code_of(saved) == "ok");
    CHECK(equal(read_whole(target), after));
    return false;
  }
  ++counts.saves;
  counts.calls.insert(*ops.hit());
  const int call = static_cast<int>(*ops.hit());
  CAPTURE(call);
  const std::string code = code_of(saved);
  CHECK(code == expected_code(*ops.hit(), fault, situation));
  if (!saved) CHECK(saved.error().file == target);
  const bool is_new = code == "ok" || code == "durability_unknown";
  CHECK(fs::exists(target) == (is_new || situation.has_old));
  CHECK(equal(read_whole(target), is_new ? after : situation.has_old ? before : Bytes()));
  // When nothing can be removed any more, the temporary file stays.
  if (!fault.lasting) CHECK(folder.size() == (is_new || situation.has_old ? 1 : 0));
  return true;
}

TEST_CASE("Every call of a save fails once, and from there on") {
  const Value old_state = testing::state_of(1);
  const Value new_state = testing::state_of(2);
  Counts counts;
  for (const Format& format : testing::kFormats) {
    CAPTURE(format.name);
    const Bytes before = saved_bytes(format, old_state);
    const Bytes after = saved_bytes(format, new_state);
    for (const Situation& situation : kSituations) {
      CAPTURE(situation.has_old);
      CAPTURE(situation.replace);
      CAPTURE(situation.sync);
      for (const int error : kErrors) {
        for (const bool lasting : {false, true}) {
          // Interrupts without end are no fault: they are tried again without end.
          if (error == EINTR && lasting) continue;
          for (std::size_t at = 0;
               try_fault(format, situation, {at, error, lasting}, new_state, before, after, counts);
               ++at) {
          }
        }
      }
    }
  }
  // Every kind of call has had its turn.
  CHECK(counts.calls.size() == static_cast<std::size_t>(Call::kCloseFolder) + 1);
  std::printf("%zu saves with failing calls\n", counts.saves);
}

TEST_CASE("A file that appears at the last moment is kept unless it may be replaced") {
  const TemporaryFolder folder;
  for (const Format& format : testing::kFormats) {
    // Whichever call it is that gives the file its name.
    for (std::size_t at = 0;; ++at) {
      FaultyOps ops({at, EEXIST});
      const auto saved = format.save(folder / "file", testing::state_of(1),
                                     {.replace = false, .threads = 1, .ops = &ops});
      REQUIRE(ops.hit());
      if (ops.hit() != Call::kRenameExclusively) {
        fs::remove(folder / "file");
        continue;
      }
      CHECK(code_of(saved) == "file_exists");
      CHECK(folder.size() == 0);
      break;
    }
  }
}

// The folder's fsync() fails with `error`.
class NoFolderSync : public FaultyOps {
 public:
  explicit NoFolderSync(int error) : error_(error) {}
  int fsync(int fd) override {
    struct stat status = {};
    if (::fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode)) return 0;
    errno = error_;
    return -1;
  }

 private:
  int error_;
};

TEST_CASE("A folder that cannot be synced at all is none that failed to") {
  const TemporaryFolder folder;
  for (const Format& format : testing::kFormats) {
    for (const int error : {EINVAL, ENOTSUP, EIO}) {
      NoFolderSync ops(error);
      const auto saved = format.save(folder / "file", testing::state_of(1), {.ops = &ops});
      CHECK(code_of(saved) == (error == EIO ? "durability_unknown" : "ok"));
    }
  }
}

TEST_CASE("Temporary names that are taken are left alone") {
  const TemporaryFolder folder;
  // Before it, the folder is opened, the target looked at, twice, and a nameless file wanted.
  FaultyOps once({4, EEXIST});
  once.needs_names = true;
  CHECK(save(folder / "file", testing::state_of(1), {.ops = &once}));
  CHECK(once.hit() == Call::kCreate);
  FaultyOps always({4, EEXIST, true});
  always.needs_names = true;
  CHECK(code_of(save(folder / "file", testing::state_of(1), {.ops = &always})) == "io_error");
  CHECK(folder.size() == 1);
  // The target's folder is looked at, too, because there is a file, and the nameless file is
  // locked.
  FaultyOps named({6, EEXIST});
  CHECK(save(folder / "file", testing::state_of(1), {.ops = &named}));
  CHECK(named.hit() == Call::kTryName);
  CHECK(folder.size() == 1);
}

// What can be seen in the folder whenever bytes are written.
class Watcher : public FaultyOps {
 public:
  explicit Watcher(const TemporaryFolder& folder) : folder_(folder) {}
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    most_ = std::max<std::size_t>(most_, folder_.size());
    return FaultyOps::pwrite(fd, bytes, size, offset);
  }
  std::size_t most() const { return most_; }

 private:
  const TemporaryFolder& folder_;
  std::size_t most_ = 0;
};

TEST_CASE("A file has no name while it is written, unless the file system wants one") {
  for (const Format& format : testing::kFormats) {
    for (const bool replace : {false, true}) {
      for (const bool needs_names : {false, true}) {
        for (const bool cannot_name : {false, true}) {
          const TemporaryFolder folder;
          Watcher ops(folder);
          ops.needs_names = needs_names;
          ops.cannot_name = cannot_name;
          CHECK(code_of(format.save(folder / "file", testing::state_of(1),
                                    {.replace = replace, .threads = 1, .ops = &ops})) == "ok");
          CHECK(ops.most() == (needs_names || cannot_name ? 1 : 0));
          CHECK(folder.size() == 1);
          CHECK(ops.still_open() == 0);
        }
      }
    }
  }
}

TEST_CASE("A file system that cannot place a file safely is found out before anything is written") {
  const TemporaryFolder folder;
  for (const Format& format : testing::kFormats) {
    FaultyOps ops;
    ops.cannot_rename_exclusively = true;
    ops.cannot_link = true;
    const auto saved =
        format.save(folder / "file", testing::state_of(1), {.replace = false, .ops = &ops});
    CHECK(code_of(saved) == "io_error");
    CHECK(ops.writes() == 0);
    CHECK(folder.size() == 0);
    CHECK(code_of(format.save(folder / "file", testing::state_of(1), {.ops = &ops})) == "ok");
    fs::remove(folder / "file");
  }
}

// How many bytes of a write are taken: never all of them, if it is up to this.
struct Appetite {
  const char* name;
  std::size_t (*takes)(std::size_t size, testing::Random& random);
};

constexpr Appetite kAppetites[] = {
    {"one byte", [](std::size_t, testing::Random&) { return std::size_t{1}; }},
    {"half", [](std::size_t size, testing::Random&) { return (size + 1) / 2; }},
    {"all but one",
     [](std::size_t size, testing::Random&) { return std::max<std::size_t>(size - 1, 1); }},
    {"a page",
     [](std::size_t size, testing::Random&) { return std::min<std::size_t>(size, 4096); }},
    {"any number",
     [](std::size_t size, testing::Random& random) {
       return static_cast<std::size_t>(1 + random.bits() % size);
     }},
};

// Writes only part of the bytes, and is interrupted before every other write.
class ShortWrites : public FaultyOps {
 public:
  explicit ShortWrites(const Appetite& appetite) : appetite_(appetite) {}

  std::size_t writes() const { return writes_; }

  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    const std::lock_guard lock(mutex_);
    if (++writes_ % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    return FileOps::pwrite(fd, bytes, appetite_.takes(size, random_), offset);
  }

 private:
  const Appetite& appetite_;
  std::mutex mutex_;
  testing::Random random_{1};
  std::size_t writes_ = 0;
};

TEST_CASE("Short and interrupted writes are completed") {
  for (const Format& format : testing::kFormats) {
    const Bytes expected = saved_bytes(format, testing::state_of(3));
    for (const Appetite& appetite : kAppetites) {
      CAPTURE(appetite.name);
      for (const unsigned threads : {1u, 2u}) {
        const TemporaryFolder folder;
        ShortWrites ops(appetite);
        CHECK(
            format.save(folder / "file", testing::state_of(3), {.threads = threads, .ops = &ops}));
        CHECK(equal(read_whole(folder / "file"), expected));
        CHECK(folder.size() == 1);
        CHECK(ops.writes() > 8);
      }
    }
  }
}

// Write number `at` takes nothing and reports nothing.
class NoProgress : public FaultyOps {
 public:
  explicit NoProgress(std::size_t at) : at_(at) {}
  bool was_met() const { return writes_ > at_; }
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    return writes_++ == at_ ? 0 : FileOps::pwrite(fd, bytes, size, offset);
  }

 private:
  std::size_t at_;
  std::size_t writes_ = 0;
};

TEST_CASE("A write that makes no progress is an error and no endless loop") {
  for (const Format& format : testing::kFormats) {
    const Bytes before = saved_bytes(format, testing::state_of(1));
    const TemporaryFolder folder;
    std::size_t met = 0;
    for (;; ++met) {
      REQUIRE(testing::write_whole(folder / "file", before));
      NoProgress ops(met);
      const auto saved =
          format.save(folder / "file", testing::state_of(2), {.threads = 1, .ops = &ops});
      CHECK(folder.size() == 1);
      CHECK(ops.still_open() == 0);
      CHECK(code_of(saved) == (ops.was_met() ? "io_error" : "ok"));
      if (!ops.was_met()) break;
      CHECK(equal(read_whole(folder / "file"), before));
    }
    CHECK(met >= 3);
  }
}

}  // namespace
}  // namespace espalier
