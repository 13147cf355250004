// Saves in the background: the bytes of the moment, the order of saves, and how they end.
#include "espalier/save_async.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/equal.h"
#include "support/in_child.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/save.h"

namespace espalier {
namespace {

using testing::check_error;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

// Producers wait at it until a test opens it.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  void wait_for(int producers) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= producers; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool is_open_ = false;
};

// A state with the number `n`, whose save waits at the gate.
Value gated(Gate& gate, int n) {
  Tensor slow{.dtype = DType::kU8, .shape = {4'000'000}};
  slow.data = TensorData::produced([&gate](std::uint64_t, MutableByteSpan out) -> Result<void> {
    gate.pass();
    std::fill(out.begin(), out.end(), std::byte{1});
    return {};
  });
  return Value::dict({{"n", Value::integer(n)}, {"slow", Value::tensor(std::move(slow))}});
}

std::int64_t number_in(const std::filesystem::path& path) {
  const auto file = CheckpointFile::open(path);
  REQUIRE(file);
  return file->state().at("n")->as_int64().value();
}

TEST_CASE("A snapshot is of the moment of the call, and ties and labels stay") {
  const TemporaryFolder folder;
  for (const int level : {0, 1}) {
    std::vector<float> large(5'000'000, 1.0f);
    std::vector<float> small(3, 2.0f);
    const Value tied = Value::tensor(borrow(large), {5, 1'000'000});
    Gate open_gate;
    open_gate.open();
    Gate gate;
    const auto state = [&](Gate& at) {
      Value made = gated(at, 1);
      made.add("a", tied);
      made.add("b", Value::list(
                        {tied, Value::tensor(borrow(small), {3}).labelled("torch.nn.Parameter")}));
      made.add("hole", Value::tensor(Tensor{.shape = {2}}));
      made.add("empty", Value::tensor(Tensor{.shape = {0}, .data = TensorData::owned({})}));
      return made;
    };
    const auto before = save_to_memory(state(open_gate), {.compression_level = level});
    REQUIRE(before);
    const AsyncSave saving = save_async(folder / "file", state(gate), Snapshot::kCopy,
                                        {.sync = false, .compression_level = level});
    CHECK_FALSE(saving.is_done());
    std::fill(large.begin(), large.end(), -1.0f);
    std::fill(small.begin(), small.end(), -1.0f);
    gate.open();
    REQUIRE(saving.wait());
    CHECK(saving.is_done());
    CHECK(saving.progress().total > 0);
    CHECK(saving.progress().done == saving.progress().total);
    CHECK(testing::read_whole(folder / "file") == *before);
    CHECK(folder.size() == 1);
  }
}

TEST_CASE("Saves to one target end in the order in which they began") {
  const TemporaryFolder folder;
  for (int round = 0; round < 5; ++round) {
    Gate gates[3];
    const AsyncSave first = save_async(folder / "file", gated(gates[0], 1), Snapshot::kBorrow);
    const AsyncSave second = save_async(folder.path() / "." / "file", gated(gates[1], 2),
                                        Snapshot::kCopy, {.sync = false});
    const AsyncSave other = save_async(folder / "other", gated(gates[2], 9), Snapshot::kBorrow);
    gates[1].open();
    gates[2].open();
    REQUIRE(other.wait());  // It does not wait for other targets.
    CHECK_FALSE(second.is_done());
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      gates[0].open();
    });
    // save() comes after them.
    CHECK(save(folder / "file", Value::dict({{"n", Value::integer(3)}}), {.sync = false}));
    CHECK(first.is_done());
    CHECK(second.is_done());
    opener.join();
    CHECK(number_in(folder / "file") == 3);
    CHECK(first.wait());
    CHECK(second.wait());
    CHECK(folder.size() == 2);
  }
}

TEST_CASE("A save is cancelled while it copies the state") {
  const TemporaryFolder folder;
  Gate gate;
  const Bytes bytes(1'000'000);
  Tensor large{.dtype = DType::kU8, .shape = {bytes.size()}};
  large.data = TensorData::borrowed(bytes);
  const std::atomic<bool> stop = true;
  const AsyncSave save =
      save_async(folder / "file", Value::list({Value::tensor(std::move(large)), gated(gate, 1)}),
                 Snapshot::kCopy, {.cancel = &stop});
  CHECK(save.is_done());  // It never came to the gate.
  gate.open();
  check_error(save.wait(), ErrorCode::kCancelled, "", "cancelled");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("A save that fails or is cancelled lets the next one pass, and leaves the old file") {
  const TemporaryFolder folder;
  const auto state = [](int n) { return Value::dict({{"n", Value::integer(n)}}); };
  REQUIRE(save(folder / "file", state(0), {.sync = false}));
  Gate gate;
  const AsyncSave cancelled = save_async(folder / "file", gated(gate, 1), Snapshot::kBorrow);
  Value twice = Value::dict({{"n", Value::null()}, {"n", Value::null()}});
  const AsyncSave failed = save_async(folder / "file", std::move(twice), Snapshot::kCopy);
  cancelled.cancel();
  gate.open();
  check_error(cancelled.wait(), ErrorCode::kCancelled, "", "cancelled");
  check_error(cancelled.wait(), ErrorCode::kCancelled, "", "cancelled");
  CHECK(failed.wait().error().code == ErrorCode::kInvalidTree);
  CHECK(number_in(folder / "file") == 0);
  std::atomic<bool> stop = true;  // as a signal handler sets it
  const AsyncSave stopped =
      save_async(folder / "file", gated(gate, 1), Snapshot::kBorrow, {.cancel = &stop});
  CHECK(stopped.wait().error().code == ErrorCode::kCancelled);
  CHECK(save_async(folder / "file", state(2), Snapshot::kCopy, {.sync = false}).wait());
  CHECK(number_in(folder / "file") == 2);
  CHECK(folder.size() == 1);
}

TEST_CASE("Errors and exceptions reach wait(), each time") {
  const TemporaryFolder folder;
  const AsyncSave nowhere = save_async(folder / "missing" / "file", Value(), Snapshot::kCopy);
  CHECK(nowhere.is_done());
  CHECK(nowhere.wait().error().code == ErrorCode::kFileNotFound);
  CHECK(save_async(std::unique_ptr<Sink>(), Value(), Snapshot::kCopy).wait().error().code ==
        ErrorCode::kInvalidArgument);
  CHECK(AsyncSave().is_done());
  CHECK(AsyncSave().wait());
  Tensor throwing{.dtype = DType::kU8, .shape = {10}};
  throwing.data = TensorData::produced([](std::uint64_t, MutableByteSpan) -> Result<void> {
    throw std::runtime_error("no more data");
  });
  for (const Snapshot how : {Snapshot::kCopy, Snapshot::kBorrow}) {
    const AsyncSave thrown = save_async(folder / "file", Value::tensor(throwing), how);
    CHECK_THROWS_WITH((void)thrown.wait(), "no more data");
    CHECK_THROWS_WITH((void)thrown.wait(), "no more data");
  }
  CHECK(folder.size() == 0);
}

TEST_CASE("The destructor and assignment wait for the save") {
  const TemporaryFolder folder;
  AsyncSave saving;
  for (const int n : {1, 2}) {
    Gate gate;
    gate.open();
    saving =
        save_async(folder / std::to_string(n), gated(gate, n), Snapshot::kBorrow, {.sync = false});
    // The gate must outlive the save.
    saving = AsyncSave();
    CHECK(number_in(folder / std::to_string(n)) == n);
  }
  {
    Gate gate;
    gate.open();
    const AsyncSave last = save_async(folder / "3", gated(gate, 3), Snapshot::kBorrow);
  }
  CHECK(number_in(folder / "3") == 3);
}

TEST_CASE("A check sees the snapshot before anything is written, and its error ends the save") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", Value::dict({{"n", 1}})));
  for (const bool in_background : {false, true}) {
    std::vector<float> numbers(3, 1.0f);
    const Value state = Value::dict({{"n", 2}, {"numbers", Value::tensor(borrow(numbers), {3})}});
    Gate gate;
    std::vector<float> seen;
    bool accepts = false;
    const auto check = [&](const Value& looked_at, const SaveOptions& options) -> Result<void> {
      gate.pass();
      CHECK((options.cancel != nullptr) == in_background);
      CHECK(folder.size() <= 2);  // and perhaps a temporary file
      seen.resize(3);
      const auto& tensor = *looked_at.find("numbers")->as_tensor();
      REQUIRE(tensor.data.read(0, std::as_writable_bytes(std::span(seen))));
      if (accepts) return {};
      return fail(ErrorCode::kInvalidTree, "no");
    };
    const auto run = [&](const SaveOptions& options) {
      if (!in_background) return save(folder / "file", state, options);
      const AsyncSave saving = save_async(folder / "file", state, Snapshot::kCopy, options);
      numbers.assign(3, 5.0f);
      gate.open();
      return saving.wait();
    };
    if (!in_background) gate.open();
    const auto refused = run({.check = check});
    check_error(refused, ErrorCode::kInvalidTree, "", "no");
    CHECK(seen == std::vector<float>(3, 1.0f));
    CHECK(number_in(folder / "file") == 1);
    CHECK(folder.size() == 1);
    accepts = true;
    numbers.assign(3, 1.0f);
    REQUIRE(run({.check = check}));
    CHECK(number_in(folder / "file") == 2);
    REQUIRE(save(folder / "file", Value::dict({{"n", 1}})));
  }
}

TEST_CASE("A forked child leaves the parent's save alone") {
  const TemporaryFolder folder;
  Gate gate;
  const SaveOptions one_thread{.threads = 1};
  const AsyncSave saving =
      save_async(folder / "file", gated(gate, 1), Snapshot::kBorrow, one_thread);
  auto* const shared = new AsyncSave(save_async(folder / "other", gated(gate, 2), Snapshot::kCopy,
                                                one_thread));  // destroyed in both
  // A thread at work could hold the lock of the allocator, which AddressSanitizer would then keep
  // closed in the child for ever.
  gate.wait_for(2);
  CHECK(testing::in_child([&] {
          const auto waited = saving.wait();
          if (waited || waited.error().code != ErrorCode::kIncomplete) return 1;
          if (!saving.is_done()) return 2;
          delete shared;
          // Nobody here waits for it either.
          return save(folder / "file", Value(), {.sync = false, .threads = 1}) ? 0 : 3;
        }) == 0);
  gate.open();
  CHECK(saving.wait());
  CHECK(shared->wait());
  delete shared;
  CHECK(number_in(folder / "file") == 1);
  CHECK(folder.size() == 2);
}

}  // namespace
}  // namespace espalier
