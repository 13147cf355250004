// Checkpoints that are opened from memory and from sources of one's own read like files on disk.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/equal.h"
#include "support/memory_file.h"
#include "support/random_tree.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"

namespace espalier {
namespace {

using testing::check_error;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

// A source as a program may write it: nothing but the two functions that it must have.
class Store : public Source {
 public:
  explicit Store(Bytes bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    if (extent.length > 0 && is_down) return fail(ErrorCode::kIoError, "the store is down");
    const auto begin = static_cast<std::size_t>(extent.offset);
    const auto length = static_cast<std::size_t>(extent.length - std::min(extent.length, missing));
    std::memcpy(scratch.data(), bytes_.data() + begin, length);
    return ByteSpan(scratch.first(length));
  }

  std::atomic<bool> is_down = false;
  std::uint64_t missing = 0;  // bytes that it leaves out of each answer

 private:
  Bytes bytes_;
};

Bytes file_of(const Value& state, int level = 0) {
  auto bytes = testing::write_file(state, Value::dict(), {.compression_level = level});
  REQUIRE(bytes);
  return std::move(*bytes);
}

TEST_CASE("A file in memory or in a store gives the tree that was saved") {
  for (const int level : {0, 3}) {
    const Value state = testing::RandomTree(7, true).state();
    const Bytes bytes = file_of(state, level);
    const auto kept = std::make_shared<const Bytes>(bytes);
    const Result<CheckpointFile> ways[] = {
        CheckpointFile::open(bytes), CheckpointFile::open(ByteSpan(*kept), kept),
        CheckpointFile::open(ByteSpan(bytes), nullptr, {.threads = 3}),
        CheckpointFile::open(std::make_shared<Store>(bytes), {.threads = 3})};
    for (const auto& file : ways) {
      REQUIRE(file);
      const auto loaded = file->load(file->state());
      REQUIRE(loaded);
      CHECK(testing::first_difference(*loaded, state) == "");
      const auto report = file->verify();
      REQUIRE(report);
      CHECK(report->error_count == 0);
    }
  }
}

TEST_CASE("Tensors in memory are used in place, and keep it alive") {
  const Bytes weights(100'000, std::byte{5});
  auto kept = std::make_shared<const Bytes>(
      file_of(Value::dict({{"w", Value::tensor(Tensor{.dtype = DType::kU8,
                                                      .shape = {weights.size()},
                                                      .data = TensorData::borrowed(weights)})}})));
  const std::weak_ptr<const Bytes> memory = kept;
  const ByteSpan bytes(*kept);
  std::optional<TensorView> view;
  {
    const auto file = CheckpointFile::open(bytes, std::move(kept));
    REQUIRE(file);
    auto found = file->tensor("w");
    REQUIRE(found);
    view = std::move(*found);
  }
  {
    const auto seen = view->bytes();
    CHECK(seen.data() >= bytes.data());
    CHECK(seen.data() + seen.size() <= bytes.data() + bytes.size());
  }
  CHECK_FALSE(memory.expired());
  view.reset();
  CHECK(memory.expired());
}

TEST_CASE("Damage has the same error wherever the bytes are") {
  const TemporaryFolder folder;
  const Bytes whole = file_of(testing::RandomTree(3).state());
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{40}, std::size_t{200}}) {
    Bytes flipped = whole;
    flipped[at] ^= std::byte{1};
    for (const Bytes& bytes : {flipped, Bytes(whole.data(), whole.data() + 60 + at)}) {
      REQUIRE(testing::write_whole(folder / "file", bytes));
      const auto on_disk = CheckpointFile::open(folder / "file");
      REQUIRE_FALSE(on_disk);
      const auto in_memory = CheckpointFile::open(bytes);
      REQUIRE_FALSE(in_memory);
      // But for the name.
      CHECK(on_disk.error().file == (folder / "file").string());
      Error damage = on_disk.error();
      damage.file.clear();
      CHECK(in_memory.error() == damage);
      const auto stored = CheckpointFile::open(std::make_shared<Store>(bytes));
      REQUIRE_FALSE(stored);
      CHECK(stored.error() == damage);
    }
  }
  check_error(CheckpointFile::open(Bytes()), ErrorCode::kTruncated, "", "");
}

TEST_CASE("A source that fails or cheats is an error, never a read beyond its bytes") {
  const Value state = testing::RandomTree(7, true).state();
  const auto store = std::make_shared<Store>(file_of(state));
  const auto file = CheckpointFile::open(store);
  REQUIRE(file);
  store->is_down = true;
  check_error(CheckpointFile::open(store), ErrorCode::kIoError, "", "the store is down");
  const auto loaded = file->load(file->state());
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().message == "the store is down");
  store->is_down = false;
  store->missing = 1;
  check_error(CheckpointFile::open(store), ErrorCode::kIoError, "", "must return all");
  CHECK(file->load(file->state()).error().code == ErrorCode::kIoError);
  check_error(CheckpointFile::open(std::shared_ptr<const Source>()), ErrorCode::kInvalidArgument,
              "", "no source");
}

}  // namespace
}  // namespace espalier
