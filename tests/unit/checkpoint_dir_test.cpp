// A folder of checkpoints: what is kept, what is found, and that processes do not disturb each
// other.
#include "espalier/checkpoint_dir.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/needs_names.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "espalier/file_sink.h"
#include "espalier/save_foreign.h"
#include "files/os/file_ops.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::check_error;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;
using Steps = std::vector<std::uint64_t>;

const SaveOptions kFast{.sync = false, .threads = 1};

Value state_of(std::uint64_t step) {
  return Value::dict({{"w", Value::tensor(std::vector<std::uint64_t>(30'000, step), {30'000})}});
}

SaveOptions with_loss(double loss) {
  SaveOptions options = kFast;
  options.metadata = Value::dict({{"loss", Value::real(loss)}});
  return options;
}

CheckpointDir must_open(const fs::path& folder, const CheckpointDirOptions& options = {}) {
  auto dir = CheckpointDir::open(folder, options);
  REQUIRE(dir);
  return std::move(*dir);
}

std::uint64_t latest_step(const CheckpointDir& dir) {
  const auto latest = dir.latest();
  REQUIRE(latest);
  REQUIRE(*latest);
  const auto view = (*latest)->file.tensor("w");
  REQUIRE(view);
  CHECK((*view->as<std::uint64_t>()).front() == (*latest)->step);
  return (*latest)->step;
}

// Changes a byte of a tensor.
void damage(const fs::path& path) {
  Bytes bytes = testing::read_whole(path);
  bytes[bytes.size() - 100] ^= std::byte{1};
  REQUIRE(testing::write_whole(path, bytes));
}

TEST_CASE("A training run saves, is ended, and goes on where it was") {
  const TemporaryFolder folder;
  const fs::path path = folder / "runs" / "1";
  for (const int level : {0, 1}) {
    const CheckpointDir dir = must_open(path, {.keep = Retention{.last = 2}});
    if (level == 0) {
      const auto none = dir.latest();
      REQUIRE(none);
      CHECK_FALSE(*none);
      CHECK(dir.steps() == Steps());
    }
    SaveOptions options = kFast;
    options.compression_level = level;
    for (std::uint64_t step = 1; step <= 4; ++step)
      REQUIRE(dir.save(step, state_of(step), options));
    REQUIRE(dir.save(4, state_of(4), options));  // again: it is replaced
    CHECK(dir.steps() == Steps{3, 4});
    CHECK(latest_step(must_open(path)) == 4);
    CHECK(fs::path(dir.path(4)).filename() == "step_00000004.espalier");
    CHECK(dir.problems().empty());
  }
}

TEST_CASE("The last, every tenth and the best are kept") {
  const TemporaryFolder folder;
  const auto run = [&](const char* name, Best best, const std::vector<double>& losses) {
    const CheckpointDir dir = must_open(
        folder / name, {.keep = Retention{.last = 2, .every = 10, .best = std::move(best)}});
    for (std::size_t i = 0; i < losses.size(); ++i) {
      REQUIRE(dir.save(i + 1, state_of(i + 1), with_loss(losses[i])));
    }
    return *dir.steps();
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> losses = {9, 3, 7, nan, 2, 3, 2, 8, 5, 6, 7, 4, 4};
  CHECK(run("min", {.metric = "loss"}, losses) == Steps{7, 10, 12, 13});
  CHECK(run("min 3", {.metric = "loss", .count = 3}, losses) == Steps{5, 6, 7, 10, 12, 13});
  CHECK(run("max", {.metric = "loss", .order = Best::Order::kMax}, losses) == Steps{1, 10, 12, 13});
  CHECK(run("no such", {.metric = "accuracy"}, losses) == Steps{10, 12, 13});
  const CheckpointDir all = must_open(folder / "all", {.keep = std::nullopt});
  for (const std::uint64_t step : {1u, 2u, 3u, 4u, 5u})
    REQUIRE(all.save(step, state_of(step), kFast));
  CHECK(all.steps() == Steps{1, 2, 3, 4, 5});
}

TEST_CASE("Damaged checkpoints are skipped, and never the end of the last intact one") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path(), {.keep = Retention{.last = 3}});
  for (const std::uint64_t step : {1u, 2u, 3u}) REQUIRE(dir.save(step, state_of(step), kFast));
  damage(dir.path(3));
  fs::resize_file(dir.path(2), 100'000);
  const auto latest = dir.latest();
  REQUIRE(latest);
  CHECK((*latest)->step == 1);
  REQUIRE((*latest)->skipped.size() == 2);
  CHECK((*latest)->skipped[0].step == 3);
  CHECK((*latest)->skipped[0].error.code == ErrorCode::kChunkCorrupt);
  CHECK((*latest)->skipped[0].error.file == "step_00000003.espalier");
  CHECK((*latest)->skipped[1].error.code == ErrorCode::kTruncated);
  CHECK((*dir.latest({.check = Check::kNothing}))->step == 3);
  damage(dir.path(1));
  check_error(dir.latest(), ErrorCode::kChunkCorrupt, "w", "none of the folder's checkpoints");
  // After going back to an earlier step, the new file is the only intact one.
  const CheckpointDir strict = must_open(folder.path(), {.keep = Retention{.last = 1}});
  REQUIRE(strict.save(0, state_of(0), kFast));
  CHECK(latest_step(strict) == 0);
  // A file that cannot be opened is not removed but reported.
  CHECK(*strict.steps() == Steps{0, 2, 3});
  REQUIRE(strict.problems().size() == 1);
  CHECK(strict.problems()[0].file == "step_00000002.espalier");
}

TEST_CASE("Files whose metadata say another step, or none, are skipped") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path());
  REQUIRE(dir.save(6, state_of(6), kFast));
  fs::copy_file(dir.path(6), dir.path(777));
  // Greater than any step that can be saved: no name of a step.
  fs::copy_file(dir.path(6), folder / "step_18446744073709551615.espalier");
  REQUIRE(save(dir.path(778), state_of(778), kFast));
  CHECK(*dir.steps() == Steps{6, 777, 778});
  for (const Check check : {Check::kHashes, Check::kNothing}) {
    const auto latest = dir.latest({.check = check});
    REQUIRE(latest);
    CHECK((*latest)->step == 6);
    REQUIRE((*latest)->skipped.size() == 2);
    CHECK((*latest)->skipped[0].step == 778);
    const SkippedStep& renamed = (*latest)->skipped[1];
    CHECK(renamed.step == 777);
    CHECK(renamed.error.file == "step_00000777.espalier");
    CHECK(renamed.error.path == "step");
    CHECK(renamed.error.code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("A file without hashes is not an intact checkpoint, and stays") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path(), {.keep = Retention{.last = 1}});
  REQUIRE(dir.save(1, state_of(1), kFast));
  SaveOptions options = kFast;
  options.check_ending = false;
  options.metadata = Value::dict({{"step", Value::integer(2)}});
  options.unrepresentable = Unrepresentable::kMetadata;
  REQUIRE(save_safetensors(dir.path(2), state_of(2), options));
  const auto latest = dir.latest();
  REQUIRE(latest);
  CHECK((*latest)->step == 1);
  REQUIRE((*latest)->skipped.size() == 1);
  CHECK((*latest)->skipped[0].error.code == ErrorCode::kNotACheckpoint);
  CHECK((*latest)->skipped[0].error.file == "step_00000002.espalier");
  REQUIRE(dir.save(3, state_of(3), kFast));
  CHECK(*dir.steps() == Steps{2, 3});
}

TEST_CASE("A metric that no checkpoint has is a problem") {
  const TemporaryFolder folder;
  const auto open = [&](const char* metric) {
    return must_open(folder.path(), {.keep = Retention{.last = 2, .best = Best{.metric = metric}}});
  };
  const CheckpointDir misspelt = open("losss");
  REQUIRE(misspelt.save(1, state_of(1), with_loss(1)));
  REQUIRE(misspelt.problems().size() == 1);  // before a checkpoint is lost
  check_error(Result<void>(tl::unexpected<Error>(misspelt.problems()[0])), ErrorCode::kNotFound,
              "losss", "Best::metric");
  const CheckpointDir dir = open("loss");
  for (const std::uint64_t step : {2u, 3u, 4u}) {
    REQUIRE(dir.save(step, state_of(step), kFast));  // An older one has it.
    CHECK(dir.problems().empty());
  }
  CHECK(*dir.steps() == Steps{1, 3, 4});
}

TEST_CASE("What a save takes over from an older file is checked before that file goes") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path(), {.keep = Retention{.last = 1}});
  REQUIRE(dir.save(1, state_of(1), kFast));
  const auto file = CheckpointFile::open(dir.path(1));
  REQUIRE(file);
  const auto state = file->load_lazily(file->state());
  REQUIRE(state);
  damage(dir.path(1));
  check_error(dir.save(2, *state, kFast), ErrorCode::kChunkCorrupt, "w", "");
  check_error(dir.save_async(2, *state, Snapshot::kBorrow, kFast).wait(), ErrorCode::kChunkCorrupt,
              "w", "");
  CHECK(*dir.steps() == Steps{1});
}

// Another process removes the new file by its own rules, before this one rotates.
class Rival : public FileOps {
 public:
  explicit Rival(fs::path victim) : victim_(std::move(victim)) {}
  int fsync(int) override {
    fs::remove(victim_);  // After the file's own fsync, there is nothing to remove yet.
    return 0;
  }

 private:
  fs::path victim_;
};

TEST_CASE("A save whose file is gone again removes nothing") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path(), {.keep = Retention{.last = 1}});
  REQUIRE(dir.save(4, state_of(4), kFast));
  const CheckpointDir all = must_open(folder.path(), {.keep = std::nullopt});
  REQUIRE(all.save(10, state_of(10), kFast));
  damage(dir.path(10));
  Rival rival(dir.path(5));
  REQUIRE(dir.save(5, state_of(5), {.threads = 1, .ops = &rival}));
  CHECK(*dir.steps() == Steps{4, 10});
  CHECK(latest_step(dir) == 4);
}

TEST_CASE("What was written in another way is pruned by the rules as well") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path(), {.keep = Retention{.last = 2}});
  for (const std::uint64_t step : Steps{1, 2, 3}) {
    SaveOptions options = kFast;
    options.metadata = Value::dict({{"step", Value::integer(static_cast<std::int64_t>(step))}});
    REQUIRE(save(dir.path(step), state_of(step), options));
  }
  REQUIRE(dir.prune(4));  // There is no such file, so those that are left may be damaged.
  CHECK(*dir.steps() == Steps{1, 2, 3});
  REQUIRE(dir.prune(3));
  CHECK(*dir.steps() == Steps{2, 3});
  CHECK(dir.problems().empty());
}

TEST_CASE("What may be the best and cannot be read now stays") {
  const TemporaryFolder folder;
  const CheckpointDir dir =
      must_open(folder.path(), {.keep = Retention{.last = 1, .best = Best{.metric = "loss"}}});
  REQUIRE(dir.save(1, state_of(1), with_loss(1)));
  REQUIRE(dir.save(2, state_of(2), with_loss(2)));
  const Bytes best = testing::read_whole(dir.path(1));
  REQUIRE(testing::write_whole(dir.path(1), Bytes(10)));
  REQUIRE(dir.save(3, state_of(3), with_loss(3)));
  CHECK(*dir.steps() == Steps{1, 2, 3});
  REQUIRE(dir.problems().size() == 1);
  CHECK(dir.problems()[0].file == "step_00000001.espalier");
  REQUIRE(testing::write_whole(dir.path(1), best));
  REQUIRE(dir.save(4, state_of(4), with_loss(4)));
  CHECK(*dir.steps() == Steps{1, 4});
  CHECK(dir.problems().empty());
  // A better one in its place counts.
  REQUIRE(dir.save(4, state_of(4), with_loss(0)));
  REQUIRE(dir.save(5, state_of(5), with_loss(4)));
  CHECK(*dir.steps() == Steps{4, 5});
}

TEST_CASE("Files that a CheckpointDir did not name are left alone") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path(), {.keep = Retention{.last = 1}});
  const char* others[] = {"notes.txt", "step_1.espalier", "step_00000001.espalier.bak",
                          "step_000000002.espalier", "model.espalier"};
  for (const char* name : others) REQUIRE(testing::write_whole(folder / name, Bytes(10)));
  // Checkpoints of such names: of another program, of another step, behind a link.
  REQUIRE(save(dir.path(1), state_of(1), kFast));
  REQUIRE(dir.save(2, state_of(2), kFast));
  fs::rename(dir.path(2), dir.path(3));
  SaveOptions marked = kFast;
  marked.metadata = Value::dict({{"step", Value::integer(4)}});
  REQUIRE(save(folder / "elsewhere", state_of(4), marked));
  fs::create_symlink("elsewhere", dir.path(4));
  fs::create_directory(dir.path(5));
  REQUIRE(dir.save(6, state_of(6), kFast));
  REQUIRE(dir.save(7, state_of(7), kFast));
  CHECK(*dir.steps() == Steps{1, 3, 4, 5, 7});
  CHECK(dir.problems().empty());
  for (const char* name : others) CHECK(fs::exists(folder / name));
  CHECK(fs::exists(folder / "elsewhere"));
}

TEST_CASE("Files that are no checkpoints of the folder do not count") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(
      folder.path(), {.keep = Retention{.last = 2, .best = Best{.metric = "loss", .count = 1}}});
  REQUIRE(dir.save(1, state_of(1), with_loss(1)));
  REQUIRE(testing::write_whole(dir.path(101), Bytes(10)));
  fs::create_directory(dir.path(102));
  REQUIRE(::mkfifo(dir.path(103).text().c_str(), 0600) == 0);
  // Checkpoints of another step, and behind a link: they would be the best, too.
  SaveOptions marked = with_loss(0);
  marked.metadata.add("step", Value::integer(105));
  REQUIRE(save(folder / "elsewhere", state_of(105), marked));
  fs::copy_file(folder / "elsewhere", dir.path(104));
  fs::create_symlink("elsewhere", dir.path(105));
  for (const std::uint64_t step : {2u, 3u, 4u, 5u}) {
    REQUIRE(dir.save(step, state_of(step), with_loss(static_cast<double>(step))));
  }
  CHECK(*dir.steps() == Steps{1, 4, 5, 101, 102, 103, 104, 105});
  // One that was moved away since it was saved, and left a link.
  fs::rename(dir.path(5), folder / "archived");
  fs::create_symlink("archived", dir.path(5));
  REQUIRE(dir.save(6, state_of(6), with_loss(6)));
  CHECK(*dir.steps() == Steps{1, 4, 5, 6, 101, 102, 103, 104, 105});
  REQUIRE(dir.problems().size() == 1);
  CHECK(dir.problems()[0].file == "step_00000101.espalier");
}

TEST_CASE("A save refuses what is no regular file at the step's name") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path());
  fs::create_symlink("elsewhere", dir.path(1));
  fs::create_directory(dir.path(2));
  for (const std::uint64_t step : {1u, 2u}) {
    const auto saved = dir.save(step, state_of(step), kFast);
    check_error(saved, ErrorCode::kNotARegularFile, "", "save another step");
    CHECK(saved.error().file == dir.path(step));
    const auto later = dir.save_async(step, state_of(step), Snapshot::kCopy, kFast).wait();
    REQUIRE_FALSE(later);
    CHECK(later.error() == saved.error());
  }
  CHECK(fs::is_symlink(dir.path(1)));
  CHECK_FALSE(fs::exists(folder / "elsewhere"));
}

TEST_CASE("Folders that cannot be made are refused") {
  const TemporaryFolder folder;
  check_error(CheckpointDir::open(""), ErrorCode::kInvalidArgument, "", "is empty");
  REQUIRE(testing::write_whole(folder / "file", {}));
  for (const char* path : {"file", "file/", "file/runs/1"}) {
    check_error(CheckpointDir::open(folder / path), ErrorCode::kInvalidArgument, "",
                (folder / "file").string() + " is not a folder");
  }
  fs::create_symlink("nowhere", folder / "link");
  check_error(CheckpointDir::open(folder / "link"), ErrorCode::kIoError, "", "make the folder");
  // The system says so at once, and no folder is made first.
  std::string deep = folder / "deep";
  for (int level = 0; level < 20'000; ++level) deep += "/a";
  check_error(CheckpointDir::open(deep), ErrorCode::kIoError, "", "too long");
  CHECK_FALSE(fs::exists(folder / "deep"));
}

TEST_CASE("Rules and metadata that cannot work are refused") {
  const TemporaryFolder folder;
  const auto code = [&](Retention keep) {
    const auto dir = CheckpointDir::open(folder / "new", {.keep = std::move(keep)});
    return dir ? "ok" : to_string(dir.error().code);
  };
  CHECK(code({.last = 0}) == "invalid_argument");
  CHECK(code({.best = Best{.metric = "a/~9"}}) == "invalid_key_path");
  CHECK_FALSE(fs::exists(folder / "new"));
  const CheckpointDir dir = must_open(folder / "new");
  SaveOptions options = kFast;
  options.metadata = Value::dict({{"step", Value::integer(2)}});
  check_error(dir.save(1, state_of(1), options), ErrorCode::kInvalidArgument, "step",
              "another key");
  CHECK(dir.save(2, state_of(2), options));
  CHECK(dir.save(~std::uint64_t{0}, state_of(2), kFast).error().code ==
        ErrorCode::kInvalidArgument);
}

TEST_CASE("Saves in the background rotate too") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path(), {.keep = Retention{.last = 2}});
  std::vector<std::uint64_t> weights(30'000);
  AsyncSave saving;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    CHECK(saving.wait());
    std::fill(weights.begin(), weights.end(), step);
    saving = dir.save_async(step, Value::dict({{"w", Value::tensor(borrow(weights), {30'000})}}),
                            Snapshot::kCopy, kFast);
  }
  CHECK(saving.wait());
  CHECK(*dir.steps() == Steps{4, 5});
  CHECK(latest_step(dir) == 5);
}

std::size_t temporary_files(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    count += FileSink::is_temporary_name(entry.path().filename().string()) ? 1 : 0;
  }
  return count;
}

// A child process that runs `work` and waits to be killed.
class Child {
 public:
  template <class Work>
  explicit Child(const Work& work) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    std::fflush(nullptr);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      work([&] { (void)!::write(ready[1], "r", 1); });
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    CHECK(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
  }
  ~Child() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

TEST_CASE("Temporary files of dead saves are removed, those of live ones stay") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / ".espalier-000000000000.tmp", Bytes(10)));
  REQUIRE(::mkfifo((folder / ".espalier-fifofifofifo.tmp").c_str(), 0600) == 0);
  const char* others[] = {".espalier-precious.tmp", ".espalier-my weights 2.tmp",
                          ".espalier-0000000000000.tmp", ".espalier-.tmp", ".espalier-tmp"};
  for (const char* name : others) REQUIRE(testing::write_whole(folder / name, Bytes(10)));
  testing::NeedsNames ops;
  auto mine = FileSink::create(folder / "mine", {.ops = &ops});
  REQUIRE(mine);
  Child child([&](const auto& ready) {
    auto sink = FileSink::create(folder / "theirs", {.ops = &ops});
    ready();
    for (;;) ::pause();
  });
  CHECK(temporary_files(folder.path()) == 4);
  const CheckpointDir dir = must_open(folder.path());
  CHECK(temporary_files(folder.path()) == 3);
  child.kill();
  // A save cleans up as well.
  REQUIRE(dir.save(1, state_of(1), kFast));
  CHECK(temporary_files(folder.path()) == 2);
  CHECK(mine->commit());
  CHECK(fs::exists(folder / "mine"));
  for (const char* name : others) CHECK(fs::exists(folder / name));
}

std::string host_name() {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  return name;
}

TEST_CASE("One process saves to a folder at a time, and the others are told which one") {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  pid_t holder = 0;
  int told[2];
  REQUIRE(::pipe(told) == 0);
  Child child([&](const auto& ready) {
    const auto dir = CheckpointDir::open(run);
    if (!dir || !dir->save(1, state_of(1), kFast)) ::_exit(1);
    const pid_t self = ::getpid();
    (void)!::write(told[1], &self, sizeof self);
    ready();
    for (;;) ::pause();
  });
  REQUIRE(::read(told[0], &holder, sizeof holder) == sizeof holder);
  const CheckpointDir dir = must_open(run);
  const std::string who = "process " + std::to_string(holder) + " on the host " + host_name();
  const auto refused = [&](const auto& saved) {
    check_error(saved, ErrorCode::kFolderInUse, "", who);
    CHECK(saved.error().message.find("choose another folder") != std::string::npos);
  };
  refused(dir.save(2, state_of(2), kFast));
  refused(dir.save_async(2, state_of(2), Snapshot::kCopy, kFast).wait());
  refused(dir.lock());
  CHECK(*dir.steps() == Steps{1});
  CHECK(temporary_files(run) == 0);
  // Nobody is kept from reading.
  CHECK(latest_step(dir) == 1);
  // What the file says of the holder does not matter once the holder is gone.
  child.kill();
  CHECK(dir.save(2, state_of(2), kFast));
  CHECK(*dir.steps() == Steps{1, 2});
  for (const int each : told) ::close(each);
}

// Runs `work` in a forked process and returns its exit code.
template <class Work>
int in_child(const Work& work) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(work());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The number of the code with which a save of another process fails, or 0.
int save_elsewhere(const fs::path& folder) {
  return in_child([&] {
    const auto dir = CheckpointDir::open(folder);
    const auto saved = dir->save(100, state_of(100), kFast);
    return saved ? 0 : static_cast<int>(saved.error().code);
  });
}

constexpr int kInUse = static_cast<int>(ErrorCode::kFolderInUse);

TEST_CASE("A folder is locked from the first save until nothing of it is left") {
  const TemporaryFolder folder;
  auto first = std::make_unique<CheckpointDir>(must_open(folder.path()));
  // Reading locks nothing, and leaves nothing behind.
  CHECK(first->latest());
  CHECK(fs::is_empty(folder.path()));
  CHECK(save_elsewhere(folder.path()) == 0);

  REQUIRE(first->save(1, state_of(1), kFast));
  CHECK(save_elsewhere(folder.path()) == kInUse);
  // Another one of the same process shares the lock, and keeps it.
  const CheckpointDir second = must_open(folder.path());
  REQUIRE(second.save(2, state_of(2), kFast));
  first.reset();
  CHECK(save_elsewhere(folder.path()) == kInUse);
  second.unlock();
  CHECK(save_elsewhere(folder.path()) == 0);
  CHECK(second.save(3, state_of(3), kFast));
  // A save in the background has the lock for itself.
  AsyncSave saving;
  {
    const CheckpointDir third = must_open(folder.path());
    std::atomic<bool> may_go_on = false;
    SaveOptions options = kFast;
    options.progress = [&](std::uint64_t, std::uint64_t) {
      while (!may_go_on) ::sched_yield();
    };
    saving = third.save_async(4, state_of(4), Snapshot::kCopy, options);
    second.unlock();
    third.unlock();
    CHECK(save_elsewhere(folder.path()) == kInUse);
    may_go_on = true;
    CHECK(saving.wait());
    // In a forked child, ThreadSanitizer takes a thread that has ended and was not joined for a
    // leak, and ends the child with 66.
    saving = AsyncSave();
  }
  CHECK(save_elsewhere(folder.path()) == 0);
  // The lock is no checkpoint, and does not count as one.
  CHECK(*second.steps() == Steps{3, 4, 100});
  CHECK(second.problems().empty());
}

TEST_CASE("A forked child neither has its parent's lock nor keeps it") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path());
  REQUIRE(dir.save(1, state_of(1), kFast));
  CHECK(in_child([&] {
          const auto saved = dir.save(2, state_of(2), kFast);
          const std::string parent = "process " + std::to_string(::getppid()) + " ";
          if (saved || saved.error().message.find(parent) == std::string::npos) return 1;
          return dir.latest() && dir.steps() == Steps{1} ? 0 : 2;
        }) == 0);
  CHECK(dir.save(2, state_of(2), kFast));
  dir.unlock();
  // A worker that outlives its trainer.
  int told[2];
  REQUIRE(::pipe(told) == 0);
  Child trainer([&](const auto& ready) {
    if (!dir.save(3, state_of(3), kFast)) ::_exit(1);
    if (::fork() == 0) {
      // The worker says so itself: only once it runs has it closed what it inherited of the lock.
      const pid_t worker = ::getpid();
      (void)!::write(told[1], &worker, sizeof worker);
      for (;;) ::pause();
    }
    ready();
    for (;;) ::pause();
  });
  pid_t worker = 0;
  REQUIRE(::read(told[0], &worker, sizeof worker) == sizeof worker);
  CHECK(save_elsewhere(folder.path()) == kInUse);
  trainer.kill();
  CHECK(save_elsewhere(folder.path()) == 0);
  CHECK(dir.save(4, state_of(4), kFast));
  CHECK(::kill(worker, SIGKILL) == 0);  // It lived until now.
  for (const int each : told) ::close(each);
}

TEST_CASE("What was planted at the name of the lock is neither followed nor waited for") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path());
  const fs::path lock = folder / ".espalier-saver";
  const Bytes precious(100, std::byte{7});
  REQUIRE(testing::write_whole(folder / "precious", precious));
  fs::create_symlink("precious", lock);
  check_error(dir.save(1, state_of(1), kFast), ErrorCode::kNotARegularFile, "", "remove it");
  fs::remove(lock);
  fs::create_symlink("nothing", lock);
  check_error(dir.save(1, state_of(1), kFast), ErrorCode::kNotARegularFile, "", "remove it");
  CHECK_FALSE(fs::exists(folder / "nothing"));
  fs::remove(lock);
  fs::create_hard_link(folder / "precious", lock);
  check_error(dir.save(1, state_of(1), kFast), ErrorCode::kNotARegularFile, "", "remove it");
  CHECK(testing::read_whole(folder / "precious") == precious);
  fs::remove(lock);
  REQUIRE(::mkfifo(lock.c_str(), 0600) == 0);
  check_error(dir.save(1, state_of(1), kFast), ErrorCode::kNotARegularFile, "", "remove it");
  fs::remove(lock);
  fs::create_directory(lock);
  check_error(dir.save(1, state_of(1), kFast), ErrorCode::kNotARegularFile, "", "remove it");
  fs::remove(lock);
  // The text of somebody else's lock is shown as text, and only if it is that of a lock.
  struct Said {
    std::string text;
    const char* shown;
  };
  for (const Said& said : {Said{"12 a\x1b[31m\n", "process 12 on the host a\\x1b[31m"},
                           Said{"x 1\n", "another process"}, Said{"", "another process"},
                           Said{std::string(1000, '1'), "another process"}}) {
    Child holder([&](const auto& ready) {
      const auto other = CheckpointDir::open(folder.path());
      if (!other || !other->lock()) ::_exit(1);
      std::ofstream(lock) << said.text;
      ready();
      for (;;) ::pause();
    });
    check_error(dir.lock(), ErrorCode::kFolderInUse, "", said.shown);
  }
  CHECK(dir.lock());
}

TEST_CASE("A folder that is removed and made anew is locked anew") {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  const CheckpointDir dir = must_open(run);
  REQUIRE(dir.save(1, state_of(1), kFast));
  fs::remove_all(run);
  REQUIRE(CheckpointDir::open(run));
  REQUIRE(dir.save(2, state_of(2), kFast));
  CHECK(save_elsewhere(run) == kInUse);
}

TEST_CASE("A link that leads in a circle does not keep a step from being saved again") {
  const TemporaryFolder folder;
  const CheckpointDir dir = must_open(folder.path());
  REQUIRE(dir.save(1, state_of(1), kFast));
  fs::create_symlink(fs::path(dir.path(2)).filename(), dir.path(2));
  CHECK(dir.save(1, state_of(11), kFast));
  CHECK(dir.problems().empty());
  CHECK(fs::is_symlink(dir.path(2)));
}

TEST_CASE("Processes that take turns in one folder leave what the rules keep, intact") {
  const TemporaryFolder folder;
  const CheckpointDirOptions rules{
      .keep = Retention{.last = 3, .every = 25, .best = Best{.metric = "loss"}}};
  std::ofstream(folder / "notes.txt") << "mine";
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      testing::Random random(seed);
      const auto dir = CheckpointDir::open(folder.path(), rules);
      if (!dir) ::_exit(1);
      for (int i = 0; i < 40; ++i) {
        // Both go forward, and sometimes back.
        const std::uint64_t step = static_cast<std::uint64_t>(i) + random.below(9);
        const SaveOptions options = with_loss(static_cast<double>(random.below(100)));
        auto saved = dir->save(step, state_of(step), options);
        while (!saved && saved.error().code == ErrorCode::kFolderInUse) {
          ::sched_yield();
          saved = dir->save(step, state_of(step), options);
        }
        dir->unlock();
        if (!saved || !dir->problems().empty()) ::_exit(2);
        const auto latest = dir->latest();
        if (!latest || !*latest || !(*latest)->skipped.empty()) ::_exit(3);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  const CheckpointDir dir = must_open(folder.path(), rules);
  REQUIRE(dir.save(100, state_of(100), with_loss(1000)));
  const auto steps = dir.steps();
  REQUIRE(steps);
  CHECK(steps->size() >= 3);
  CHECK(steps->size() <= 3 + 3 + 1);
  CHECK(latest_step(dir) == 100);
  for (const std::uint64_t step : *steps) {
    const auto file = CheckpointFile::open(dir.path(step));
    REQUIRE(file);
    CHECK(file->verify()->error_count == 0);
  }
  CHECK(temporary_files(folder.path()) == 0);
  CHECK(fs::exists(folder / "notes.txt"));
}

TEST_CASE("After a kill the latest checkpoint is intact, and the remains go") {
  const TemporaryFolder folder;
  std::uint64_t newest = 0;
  for (int round = 0; round < 12; ++round) {
    {
      Child child([&](const auto& ready) {
        const auto dir = CheckpointDir::open(folder.path(), {.keep = Retention{.last = 2}});
        const auto latest = dir->latest({.check = Check::kNothing});
        std::uint64_t step = *latest ? (*latest)->step : 0;
        for (bool is_first = true;; is_first = false) {
          ++step;
          if (!dir->save(step, state_of(step), kFast)) ::_exit(1);
          if (is_first) ready();
        }
      });
      ::usleep(static_cast<useconds_t>(137 * round));
    }
    const CheckpointDir dir = must_open(folder.path());
    CHECK(temporary_files(folder.path()) == 0);
    const std::uint64_t step = latest_step(dir);
    CHECK(step > newest);
    newest = step;
    CHECK((*dir.latest())->skipped.empty());
  }
}

}  // namespace
}  // namespace espalier
