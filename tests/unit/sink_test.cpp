// Saves to memory and to sinks of one's own: the same file as on disk, and no file after an error.
#include "espalier/sink.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/random_tree.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/format/header.h"
#include "espalier/save.h"
#include "espalier/save_foreign.h"

namespace espalier {
namespace {

using testing::check_error;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

// Holds saves to what Sink promises, and can fail.
class StrictSink : public Sink {
 public:
  Result<void> reserve(std::uint64_t length) override {
    CHECK(writes_.empty());
    CHECK_FALSE(reserved_);
    reserved_ = length;
    return {};
  }
  Result<void> write(std::uint64_t offset, ByteSpan bytes) override {
    const std::lock_guard lock(mutex_);
    CHECK(reserved_);
    CHECK_FALSE(is_committed);
    if (writes_.size() == fails_at) return fail(ErrorCode::kIoError, "the store is full");
    if (writes_.size() == throws_at) throw std::runtime_error("the store is gone");
    const auto end = static_cast<std::size_t>(offset) + bytes.size();
    for (const auto& [begin, length] : writes_) {
      CHECK((end <= begin || begin + length <= offset));
    }
    writes_.emplace_back(offset, bytes.size());
    if (file.size() < end) file.resize(end);
    std::memcpy(file.data() + offset, bytes.data(), bytes.size());
    return {};
  }
  Result<void> commit() override {
    CHECK_FALSE(is_committed);
    // The header came last, alone.
    CHECK(writes_.back() == std::pair<std::uint64_t, std::size_t>(0, kHeaderBytes));
    if (*reserved_ != 0) CHECK(file.size() == *reserved_);
    is_committed = true;
    return {};
  }

  std::size_t fails_at = ~std::size_t{0};
  std::size_t throws_at = ~std::size_t{0};
  bool is_committed = false;
  Bytes file;

 private:
  std::mutex mutex_;
  std::optional<std::uint64_t> reserved_;
  std::vector<std::pair<std::uint64_t, std::size_t>> writes_;
};

Value tensor(std::size_t size, std::byte fill) {
  return Value::tensor(
      Tensor{.dtype = DType::kU8, .shape = {size}, .data = TensorData::owned(Bytes(size, fill))});
}

Value state() {
  return Value::dict({{"random", testing::RandomTree(5, true).state()},
                      {"large", tensor(5'000'001, std::byte{1})},
                      {"small", tensor(100, std::byte{2})}});
}

TEST_CASE("Memory and a sink get the bytes that a file gets") {
  const TemporaryFolder folder;
  for (const int level : {0, 1}) {
    REQUIRE(save(folder / "file", state(), {.sync = false, .compression_level = level}));
    const Bytes expected = testing::read_whole(folder / "file");
    for (const unsigned threads : {1u, 4u}) {
      const SaveOptions options{.threads = threads, .compression_level = level};
      const auto in_memory = save_to_memory(state(), options);
      REQUIRE(in_memory);
      CHECK(*in_memory == expected);
      StrictSink sink;
      CHECK(save(sink, state(), options));
      CHECK(sink.is_committed);
      CHECK(sink.file == expected);
    }
  }
  const Value flat = Value::dict({{"a", tensor(3'000'000, std::byte{1})}, {"b", tensor(9, {})}});
  REQUIRE(save_safetensors(folder / "file", flat, {.sync = false}));
  MemorySink sink;
  REQUIRE(save_safetensors(sink, flat));
  CHECK(sink.take() == testing::read_whole(folder / "file"));
  CHECK(sink.take().empty());
}

TEST_CASE("A sink that fails or throws ends the save, and is not committed") {
  for (const unsigned threads : {1u, 4u}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{2}}) {
      for (const int level : {0, 1}) {
        const SaveOptions options{.threads = threads, .compression_level = level};
        StrictSink failing;
        failing.fails_at = at;
        check_error(save(failing, state(), options), ErrorCode::kIoError, "", "the store is full");
        CHECK_FALSE(failing.is_committed);
        StrictSink throwing;
        throwing.throws_at = at;
        CHECK_THROWS_WITH((void)save(throwing, state(), options), "the store is gone");
        CHECK_FALSE(throwing.is_committed);
      }
    }
  }
  StrictSink sink;
  const Value twice = Value::dict({{"a", Value::null()}, {"a", Value::null()}});
  CHECK(save(sink, twice).error().code == ErrorCode::kInvalidTree);
  CHECK(sink.file.empty());
}

TEST_CASE("A cancelled save leaves the old file") {
  const TemporaryFolder folder;
  const Bytes old(10, std::byte{'o'});
  REQUIRE(testing::write_whole(folder / "file", old));
  for (const int level : {0, 1}) {
    std::atomic<bool> cancel = false;
    std::uint64_t reported = 0;
    const auto stop = [&](std::uint64_t done, std::uint64_t) {
      reported = done;
      cancel = true;
    };
    check_error(
        save(folder / "file", state(),
             {.threads = 1, .compression_level = level, .progress = stop, .cancel = &cancel}),
        ErrorCode::kCancelled, "", "cancelled");
    CHECK(reported <= 4'000'000);
    CHECK(testing::read_whole(folder / "file") == old);
    CHECK(folder.size() == 1);
  }
}

// How many calls of a producer run at once.
struct Crowd {
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
};

Value crowded(Crowd& crowd) {
  Tensor made{.dtype = DType::kU8, .shape = {40'000'000}};
  made.data = TensorData::produced([&](std::uint64_t offset, MutableByteSpan out) -> Result<void> {
    const int now = ++crowd.now;
    for (int most = crowd.most; most < now && !crowd.most.compare_exchange_weak(most, now);) {
    }
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>((offset + i) / 7);
    --crowd.now;
    return {};
  });
  return Value::tensor(std::move(made));
}

TEST_CASE("A bound for memory means fewer threads, and the same file") {
  Crowd crowd;
  const Value state = crowded(crowd);
  for (const int level : {0, 1}) {
    const auto unbounded = save_to_memory(state, {.threads = 1, .compression_level = level});
    REQUIRE(unbounded);
    crowd.most = 0;
    const auto bounded =
        save_to_memory(state, {.threads = 16,
                               .compression_level = level,
                               .memory_bytes = level == 0 ? 5'000'000u : 20'000'000u});
    REQUIRE(bounded);
    CHECK(*bounded == *unbounded);
    CHECK(crowd.most <= 2);
    CHECK(crowd.most >= 1);
    StrictSink sink;
    check_error(save(sink, state, {.compression_level = level, .memory_bytes = 1'000'000}),
                ErrorCode::kInvalidArgument, "", "raise it");
    CHECK(sink.file.empty());
  }
  // Tensors in memory that are stored raw need no buffers.
  CHECK(save_to_memory(tensor(3'000'000, {}), {.memory_bytes = 1}));
}

}  // namespace
}  // namespace espalier
