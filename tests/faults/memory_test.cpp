// Memory runs out at every allocation of a save and of a read, once and from there on: the result
// is kOutOfMemory, or right all the same; nothing escapes, nothing leaks, and no target is harmed.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "saves.h"
#include "support/equal.h"
#include "support/random_tree.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "espalier/checkpoint_file.h"
#include "files/os/file_ops.h"

namespace {

// Allocations of the whole program. They are counted, and fail, only while armed.
struct Memory {
  std::atomic<bool> is_armed = false;
  std::atomic<std::size_t> made = 0;
  std::atomic<std::size_t> at = 0;
  std::atomic<bool> is_lasting = false;
  std::atomic<bool> has_failed = false;
  std::atomic<std::ptrdiff_t> live = 0;  // blocks, also of those that were not armed
};
Memory g_memory;

bool has_run_out() {
  if (!g_memory.is_armed) return false;
  const std::size_t number = g_memory.made++;
  if (number != g_memory.at && !(g_memory.is_lasting && number > g_memory.at)) return false;
  g_memory.has_failed = true;
  return true;
}

void* take(std::size_t size, std::size_t alignment) noexcept {
  if (has_run_out()) return nullptr;
  const std::size_t rounded = (size + alignment) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(rounded)
                                                        : std::aligned_alloc(alignment, rounded);
  if (memory != nullptr) ++g_memory.live;
  return memory;
}

void* take_or_throw(std::size_t size, std::size_t alignment) {
  if (void* memory = take(size, alignment)) return memory;
  throw std::bad_alloc();
}

void give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  --g_memory.live;
  std::free(memory);
}

constexpr std::size_t kUsual = alignof(std::max_align_t);

}  // namespace

// All replaceable functions: the standard library's array and nothrow forms call these.
void* operator new(std::size_t size) { return take_or_throw(size, kUsual); }
void* operator new[](std::size_t size) { return take_or_throw(size, kUsual); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return take(size, kUsual); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return take(size, kUsual);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return take_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return take(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { give_back(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  give_back(memory);
}

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::Bytes;
using testing::equal;
using testing::Format;
using testing::read_whole;
using testing::TemporaryFolder;

// The result of an attempt with too little memory.
enum class Verdict { kDone, kNoMemory, kOtherError, kException };

template <class T>
Verdict verdict_of(const Result<T>& result) {
  if (result) return Verdict::kDone;
  return result.error().code == ErrorCode::kOutOfMemory ? Verdict::kNoMemory : Verdict::kOtherError;
}

// Whether a mapping or a descriptor of something in the folder is left over.
bool is_still_in_use(const TemporaryFolder& folder) {
  const std::string name = folder.path().string();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) != std::string::npos) return true;
  }
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (fs::read_symlink(entry, error).string().find(name) != std::string::npos) return true;
  }
  return false;
}

// Runs `attempt` until it meets no failing allocation any more. What it makes it leaves in a
// variable of the caller's, that `check` looks at, with memory again, and must empty. Returns how
// many attempts met one.
std::size_t with_too_little_memory(const std::function<Verdict()>& attempt,
                                   const std::function<void(Verdict)>& check) {
  {
    // The first run lets the standard library and doctest allocate memory that they keep.
    CAPTURE(std::size_t{0});
    CAPTURE(false);
    check(attempt());
  }
  std::size_t met = 0;
  for (const bool is_lasting : {false, true}) {
    for (std::size_t at = 0;; ++at) {
      const std::ptrdiff_t live = g_memory.live;
      Verdict verdict;
      g_memory.made = 0;
      g_memory.at = at;
      g_memory.is_lasting = is_lasting;
      g_memory.has_failed = false;
      g_memory.is_armed = true;
      try {
        verdict = attempt();
      } catch (...) {
        verdict = Verdict::kException;
      }
      g_memory.is_armed = false;
      const bool has_failed = g_memory.has_failed;
      {
        CAPTURE(at);
        CAPTURE(is_lasting);
        const bool is_allowed =
            verdict == Verdict::kDone || (has_failed && verdict == Verdict::kNoMemory);
        if (!is_allowed) CHECK(static_cast<int>(verdict) == static_cast<int>(Verdict::kNoMemory));
        check(verdict);
        CHECK(g_memory.live == live);
      }
      if (!has_failed) break;
      ++met;
    }
  }
  CHECK(met > 5);
  return met;
}

// Syncing takes its time, and no memory.
class NoSync : public FileOps {
 public:
  int fsync(int) override { return 0; }
};

// A state with everything in it that a file can hold, and one write from a tensor's own memory.
Value rich_state() {
  std::vector<Value> random;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    random.push_back(testing::RandomTree(seed).state());
  }
  return Value::dict({{"random", Value::list(std::move(random))},
                      {"large", testing::random_tensor(70'000, 1)},
                      {"a key that is longer than a short string", Value::tuple()}});
}

Value state_for(const Format& format) {
  return std::string(format.name) == "safetensors" ? testing::state_of(1) : rich_state();
}

TEST_CASE("Memory runs out in a save") {
  NoSync ops;
  std::size_t met = 0;
  for (const Format& format : testing::kFormats) {
    CAPTURE(format.name);
    const TemporaryFolder folder;
    const FilePath target = folder / "file";  // made before memory runs out
    const Value state = format.prepare(state_for(format));
    REQUIRE(format.write(target, state, {.ops = &ops}));
    const Bytes after = read_whole(target);
    const Bytes before(1000, std::byte{'o'});
    for (const unsigned threads : {1u, 2u}) {
      CAPTURE(threads);
      const SaveOptions options{.threads = threads, .ops = &ops};
      REQUIRE(testing::write_whole(target, before));
      met += with_too_little_memory(
          [&] { return verdict_of(format.write(target, state, options)); },
          [&](Verdict verdict) {
            CHECK(equal(read_whole(target), verdict == Verdict::kDone ? after : before));
            CHECK(folder.size() == 1);
            CHECK_FALSE(is_still_in_use(folder));
            if (verdict == Verdict::kDone) REQUIRE(testing::write_whole(target, before));
          });
    }
  }
  std::printf("%zu saves without memory\n", met);
}

// The folder cannot be synced: the error must be reported even without memory for details.
class NoFolderSync : public FileOps {
 public:
  int fsync(int fd) override {
    struct stat status = {};
    if (::fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode)) return 0;
    g_memory.is_armed = true;
    errno = EIO;
    return -1;
  }
};

TEST_CASE("A target that is in place is not said to be as it was") {
  const TemporaryFolder folder;
  NoFolderSync ops;
  g_memory.made = 0;
  g_memory.at = 0;
  g_memory.is_lasting = true;
  g_memory.has_failed = false;
  const auto saved = save(folder / "file", testing::state_of(1), {.threads = 1, .ops = &ops});
  g_memory.is_armed = false;
  CHECK(g_memory.has_failed);
  REQUIRE_FALSE(saved);
  CHECK(saved.error().code == ErrorCode::kDurabilityUnknown);
  CHECK(fs::exists(folder / "file"));
}

TEST_CASE("Memory runs out in reading a file") {
  std::size_t met = 0;
  NoSync ops;
  for (const Format& format : testing::kFormats) {
    CAPTURE(format.name);
    const TemporaryFolder folder;
    const FilePath path = folder / "file";
    const Value state = state_for(format);
    REQUIRE(format.save(path, state, {.ops = &ops}));
    for (const Access access : {Access::kMapped, Access::kRead}) {
      for (const unsigned threads : {1u, 2u}) {
        CAPTURE(threads);
        const OpenFileOptions options{.access = access, .limits = {}, .threads = threads};
        const auto file = CheckpointFile::open(path, options);
        REQUIRE(file);
        // Opening.
        met += with_too_little_memory(
            [&] { return verdict_of(CheckpointFile::open(path, options)); }, [](Verdict) {});
        // Loading everything.
        std::optional<Value> loaded;
        const auto compare = [&](Verdict verdict) {
          CHECK(loaded.has_value() == (verdict == Verdict::kDone));
          if (loaded) CHECK(testing::first_difference(*loaded, state) == "");
          loaded.reset();
        };
        met += with_too_little_memory(
            [&] {
              auto result = file->load(file->state());
              if (result) loaded.emplace(std::move(*result));
              return verdict_of(result);
            },
            compare);
        // The same in bits, when they are asked for.
        met += with_too_little_memory(
            [&] {
              auto result = file->load_lazily(file->state());
              if (result) loaded.emplace(std::move(*result));
              return verdict_of(result);
            },
            compare);
        // Verifying must report unchecked bytes neither as intact nor as damaged.
        met += with_too_little_memory(
            [&] {
              const auto report = file->verify();
              if (report && report->error_count > 0) return Verdict::kOtherError;
              return verdict_of(report);
            },
            [](Verdict) {});
        // One tensor, whole and in part.
        const auto large =
            *file->state().at(format.name == std::string("safetensors") ? "a" : "large");
        const TensorRef tensor = *large.tensor();
        const Slice slices[] = {{1, 60'000, 7}};
        std::size_t bytes = 0;
        met += with_too_little_memory(
            [&] {
              const auto view = file->view(tensor);
              if (!view) return verdict_of(view);
              const auto slice = file->slice(tensor, slices);
              if (slice) bytes = view->bytes().size() + slice->bytes().size();
              return verdict_of(slice);
            },
            [&](Verdict verdict) {
              CHECK(bytes == (verdict == Verdict::kDone ? 78'572 : 0));
              bytes = 0;
            });
      }
    }
    CHECK_FALSE(is_still_in_use(folder));
  }
  std::printf("%zu reads without memory\n", met);
}

TEST_CASE("Memory runs out in a save of a file that is read lazily") {
  const TemporaryFolder folder;
  NoSync ops;
  const FilePath path = folder / "file";
  REQUIRE(save(path, rich_state(), {.ops = &ops}));
  const Bytes expected = read_whole(path);
  std::size_t met = 0;
  for (const Access access : {Access::kMapped, Access::kRead}) {
    const auto file = CheckpointFile::open(path, {.access = access, .limits = {}, .threads = 1});
    REQUIRE(file);
    const auto state = file->load_lazily(file->state());
    REQUIRE(state);
    // Over itself: the source stays unchanged.
    met += with_too_little_memory(
        [&] { return verdict_of(save(path, *state, {.threads = 2, .ops = &ops})); },
        [&](Verdict) {
          CHECK(equal(read_whole(path), expected));
          CHECK(folder.size() == 1);
        });
  }
  std::printf("%zu saves of a file over itself without memory\n", met);
}

}  // namespace
}  // namespace espalier
