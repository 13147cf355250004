// Threads and memory that the program gives.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/check_error.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_dir.h"
#include "espalier/checkpoint_file.h"
#include "espalier/file_sink.h"
#include "espalier/save.h"
#include "espalier/save_async.h"
#include "files/os/parallel.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

// Calls the work on one thread after the other. Counts how often it is asked.
struct OneAfterTheOther {
  std::atomic<int> runs = 0;
  std::mutex busy;

  Threads threads(unsigned count = 4) {
    return {count, [this](unsigned calls, const std::function<void()>& work) {
              ++runs;
              // As of a pool with one thread: a job that waits for another one waits for ever.
              const std::unique_lock lock(busy, std::try_to_lock);
              if (!lock) throw std::logic_error("the only thread is asked for twice");
              for (unsigned i = 0; i < calls; ++i) std::thread(work).join();
            }};
  }
};

// Of many chunks and regions, also when it is compressed.
float element_of(std::size_t i) { return static_cast<float>(i * i * i % 1'000'003); }

Value large_state() {
  std::vector<float> elements(3 << 20);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = element_of(i);
  return Value::dict({{"w", Value::tensor(std::move(elements), {3, 1 << 20})}});
}

CheckpointFile must_open(const FilePath& path, const OpenFileOptions& options = {}) {
  return CheckpointFile::open(path, options).value();
}

// The elements of "w" as large_state() makes them.
bool is_large_state(const CheckpointFile& file) {
  const auto elements = file.elements<float>("w");
  if (!elements || elements->size() != (3 << 20)) return false;
  for (std::size_t i = 0; i < elements->size(); ++i) {
    if ((*elements)[i] != element_of(i)) return false;
  }
  return true;
}

TEST_CASE("Saves and reads run on what the program gives") {
  const TemporaryFolder folder;
  OneAfterTheOther pool;
  REQUIRE(save(folder / "a.espalier", large_state(),
               {.threads = pool.threads(), .compression_level = 1}));
  CHECK(pool.runs.load() == 1);
  const auto file = CheckpointFile::open(folder / "a.espalier", {.threads = pool.threads()});
  REQUIRE(file);
  CHECK(is_large_state(*file));
  CHECK(pool.runs.load() == 2);
  REQUIRE(file->verify()->error_count == 0);
  CHECK(pool.runs.load() == 3);
  // One thread is that of the caller.
  CHECK(is_large_state(*CheckpointFile::open(folder / "a.espalier", {.threads = pool.threads(1)})));
  CHECK(pool.runs.load() == 3);
  // The snapshot, and the save.
  const AsyncSave saving = save_async(folder / "b.espalier", large_state(), Snapshot::kCopy,
                                      {.threads = pool.threads()});
  REQUIRE(saving.wait());
  CHECK(pool.runs.load() == 5);
}

TEST_CASE("A pool of one thread may serve a save and what the save reads") {
  const TemporaryFolder folder;
  OneAfterTheOther pool;
  REQUIRE(save(folder / "a.espalier", large_state(), {.compression_level = 1}));
  const auto file = CheckpointFile::open(folder / "a.espalier", {.threads = pool.threads()});
  REQUIRE(file);
  const auto read_again = [&](std::uint64_t offset, MutableByteSpan out) -> Result<void> {
    const auto whole = file->tensor("w");
    if (!whole) return propagate(whole);
    const auto bytes = whole->bytes();
    std::copy_n(bytes.span().begin() + static_cast<std::ptrdiff_t>(offset), out.size(),
                out.begin());
    return {};
  };
  const Value state =
      Value::dict({{"w", Value::tensor({.dtype = DType::kF32,
                                        .shape = {3, 1 << 20},
                                        .data = TensorData::produced(read_again)})}});
  REQUIRE(save(folder / "b.espalier", state, {.threads = pool.threads()}));
  CHECK(pool.runs.load() == 1);
  CHECK(is_large_state(*CheckpointFile::open(folder / "b.espalier")));
}

TEST_CASE("Also what runs on threads that such work starts does not ask the pool") {
  OneAfterTheOther pool;
  std::atomic<int> done = 0;
  const auto often = [](const Threads& threads, const std::function<Result<void>()>& work) {
    return parallel_for(2, threads, [&](unsigned, std::size_t) { return work(); });
  };
  REQUIRE(often(pool.threads(), [&] {
    return often(Threads(2), [&] {
      return often(pool.threads(), [&]() -> Result<void> {
        ++done;
        return {};
      });
    });
  }));
  CHECK(done == 8);
  CHECK(pool.runs.load() == 1);
}

TEST_CASE("A Run may call too rarely, too often or too late") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.espalier";
  std::function<void()> late;
  const auto saves = [&](Threads::Run run) {
    return save(path, large_state(), {.threads = {3, std::move(run)}}) &&
           is_large_state(*CheckpointFile::open(path));
  };
  CHECK(saves([](unsigned, const std::function<void()>&) {}));
  CHECK(saves([&](unsigned calls, const std::function<void()>& work) {
    late = work;
    for (unsigned i = 0; i < 2 * calls; ++i) work();
  }));
  late();
  std::vector<std::thread> threads;
  CHECK(saves([&](unsigned calls, const std::function<void()>& work) {
    for (unsigned i = 0; i < calls; ++i) threads.emplace_back(work);
  }));
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("Work that comes again on a thread that does it already does nothing") {
  // As in a pool that does other jobs while one of them waits. The save holds locks and turns
  // there.
  std::function<void()> again;
  const Threads helping(2, [&](unsigned, const std::function<void()>& work) {
    again = work;
    work();
  });
  const auto help_and_fill = [&](std::uint64_t, MutableByteSpan out) -> Result<void> {
    again();
    std::fill(out.begin(), out.end(), std::byte{1});
    return {};
  };
  Tensor tensor{.dtype = DType::kU8, .shape = {5 << 20}};
  tensor.data = TensorData::produced(help_and_fill);
  const Value produced = Value::dict({{"w", Value::tensor(tensor)}});
  tensor.data = TensorData::streamed([&](MutableByteSpan out) { return help_and_fill(0, out); });
  const Value streamed = Value::dict({{"w", Value::tensor(tensor)}});
  for (const Value& state : {produced, streamed}) {
    const auto bytes =
        save_to_memory(state, {.threads = helping,
                               .compression_level = 1,
                               .progress = [&](std::uint64_t, std::uint64_t) { again(); }});
    REQUIRE(bytes);
    const CheckpointFile file = CheckpointFile::open(*bytes).value();
    const auto elements = file.elements<std::uint8_t>("w");
    REQUIRE(elements);
    CHECK(std::all_of(elements->begin(), elements->end(), [](int each) { return each == 1; }));
  }
}

TEST_CASE("Exceptions of a Run propagate, and leave the old file") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.espalier";
  REQUIRE(save(path, Value::dict({{"step", 1}})));
  const Threads throwing(2, [](unsigned, const std::function<void()>& work) {
    work();
    throw std::runtime_error("no more jobs");
  });
  CHECK_THROWS_WITH(static_cast<void>(save(path, large_state(), {.threads = throwing})),
                    "no more jobs");
  const AsyncSave saving = save_async(path, large_state(), Snapshot::kCopy, {.threads = throwing});
  CHECK_THROWS_WITH(static_cast<void>(saving.wait()), "no more jobs");
  const CheckpointFile old = must_open(path);
  CHECK(old.checkpoint().tensor_count() == 0);
  const Threads without_memory(
      2, [](unsigned, const std::function<void()>&) { throw std::bad_alloc(); });
  testing::check_error(save(path, large_state(), {.threads = without_memory}),
                       ErrorCode::kOutOfMemory, "", "memory");
}

// Counts what it has lent.
class CountingResource : public std::pmr::memory_resource {
 public:
  std::atomic<std::size_t> lent = 0;
  std::atomic<std::size_t> alignment = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t at) override {
    lent += bytes;
    alignment = at;
    return std::pmr::new_delete_resource()->allocate(bytes, at);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t at) override {
    lent -= bytes;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, at);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

TEST_CASE("Tensors are read into memory that the program gives") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "a.espalier", large_state(), {.compression_level = 1}));
  CountingResource resource;
  const OpenFileOptions options = {.memory = memory_of(&resource)};
  constexpr std::size_t kBytes = 12 << 20;
  {
    const auto file = CheckpointFile::open(folder / "a.espalier", options);
    REQUIRE(file);
    CHECK(resource.lent == 0);
    const auto view = file->tensor("w");
    REQUIRE(view);
    CHECK(resource.lent == kBytes);
    CHECK(resource.alignment == kTensorAlignment);
    const auto slice = file->slice("w", {{.start = 1, .stop = 2}});
    REQUIRE(slice);
    CHECK(resource.lent == kBytes + kBytes / 3);
    const auto loaded = file->load(file->state());
    REQUIRE(loaded);
    CHECK(resource.lent == 2 * kBytes + kBytes / 3);
    CHECK(is_large_state(*file));
  }
  CHECK(resource.lent == 0);
}

TEST_CASE("Memory that there is not, or that stands elsewhere, is refused") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.espalier";
  REQUIRE(save(path,
               Value::dict({{"w", Value::tensor(std::vector<float>{1, 2}, {2})},
                            {"none", Value::tensor(std::vector<float>{}, {0})}}),
               {.compression_level = 1}));
  const auto with = [&](TensorMemory memory) {
    return *CheckpointFile::open(path, {.access = Access::kRead, .memory = std::move(memory)});
  };
  const auto no_memory = with([](std::size_t, std::size_t) { return nullptr; });
  testing::check_error(no_memory.tensor("w"), ErrorCode::kOutOfMemory, "w",
                       "OpenFileOptions::memory");
  CHECK(no_memory.tensor("none"));  // Nothing is asked for.
  testing::check_error(with([](std::size_t, std::size_t) -> std::shared_ptr<void> {
                         throw std::bad_alloc();
                       }).load(no_memory.state()),
                       ErrorCode::kOutOfMemory, "w", "OpenFileOptions::memory");
  alignas(kTensorAlignment) static std::byte block[128];
  testing::check_error(with([&](std::size_t, std::size_t) {
                         return std::shared_ptr<void>(std::shared_ptr<void>(), block + 8);
                       }).tensor("w"),
                       ErrorCode::kInvalidArgument, "w", "aligned to 64 bytes");
}

TEST_CASE("A path with a NUL is refused, and nothing of that name before it is touched") {
  const TemporaryFolder folder;
  const std::string path = (folder / "a.espalier").string();
  REQUIRE(save(path, Value::dict({{"step", 1}})));
  const std::string with_nul = path + std::string(1, '\0') + ".bak";
  const auto code = ErrorCode::kInvalidArgument;
  testing::check_error(save(with_nul, Value::dict()), code, "", "NUL");
  testing::check_error(CheckpointFile::open(with_nul), code, "", "NUL");
  testing::check_error(open_source(with_nul), code, "", "NUL");
  testing::check_error(remove_dead_temporary_files(folder.path().string() + with_nul), code, "",
                       "NUL");
  testing::check_error(CheckpointDir::open(folder.path().string() + std::string(1, '\0')), code, "",
                       "NUL");
  const CheckpointFile file = must_open(path);
  CHECK(file.state().at("step")->as_int64() == 1);
}

TEST_CASE("Paths are text or paths of the standard library, in both directions") {
  const TemporaryFolder folder;
  const auto dir = CheckpointDir::open(folder.path());
  REQUIRE(dir);
  const std::filesystem::path path = dir->path(7);
  CHECK(path == folder / "step_00000007.espalier");
  CHECK(dir->path(7) == FilePath(path));
  CHECK(dir->path(7) == path);
  CHECK(dir->path(7).text() == path.native());
  REQUIRE(dir->save(7, Value::dict({{"step", 7}})));
  const FilePath named = dir->path(7);
  CHECK(std::ifstream(named.c_str()).good());
  CHECK(CheckpointFile::open(std::filesystem::directory_entry(path)));
  CHECK(FilePath("a") == FilePath(std::string_view("a")));
}

}  // namespace
}  // namespace espalier
