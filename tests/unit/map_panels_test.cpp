// How often a map reads what it transposes, and in how much memory.
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/mapped_checkpoint.h"
#include "espalier/save.h"
#include "files/map/map_targets.h"

namespace espalier {
namespace {

constexpr std::uint64_t kRows = 4096;
constexpr std::uint64_t kColumns = 3072;  // 24 MiB of u16: ten panels of the least memory

// A file in memory that is read in parts, and may change.
class ReadFile : public Source {
 public:
  explicit ReadFile(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  std::uint64_t size() const override { return bytes_.size(); }
  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    read_bytes += extent.length;
    if (change_after != 0 && read_bytes > change_after) bytes_[change_at] ^= std::byte{1};
    if (read_bytes > change_after) change_after = 0;
    const auto out = scratch.first(static_cast<std::size_t>(extent.length));
    std::memcpy(out.data(), bytes_.data() + extent.offset, out.size());
    return ByteSpan(out);
  }

  mutable std::uint64_t read_bytes = 0;
  mutable std::uint64_t change_after = 0;  // 0: does not change
  std::size_t change_at = 0;

 private:
  mutable std::vector<std::byte> bytes_;
};

std::vector<std::uint16_t> numbers() {
  std::vector<std::uint16_t> all(kRows * kColumns);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i / 7);
  return all;
}

std::shared_ptr<ReadFile> file_of(const std::vector<std::uint16_t>& all, int level) {
  Value state = Value::dict();
  const auto bytes = std::as_bytes(std::span(all));
  state.add("w", Value::tensor({.dtype = DType::kU16,
                                .shape = {kRows, kColumns},
                                .data = TensorData::owned({bytes.begin(), bytes.end()})}));
  auto saved = save_to_memory(state, {.compression_level = level});
  REQUIRE(saved);
  return std::make_shared<ReadFile>(std::move(*saved));
}

MappedCheckpoint transposed(const std::shared_ptr<ReadFile>& source) {
  const auto map = KeyMap::parse(R"({"espalier_map": 1, "rules": ["w [a b] <-> w [b a]"]})");
  REQUIRE(map);
  const auto file = CheckpointFile::open(source);
  REQUIRE(file);
  MappedOptions options;
  options.targets = {.memory = 1, .threads = 1};  // as little as it takes
  auto mapped = MappedCheckpoint::make(*map, {{*file}}, options);
  REQUIRE(mapped);
  return std::move(*mapped);
}

Result<std::vector<std::uint16_t>> read_all(const MappedCheckpoint& mapped) {
  std::vector<std::uint16_t> made(kRows * kColumns);
  const auto out = std::as_writable_bytes(std::span(made));
  for (std::size_t at = 0; at < out.size(); at += kChunkBytes) {
    if (auto ok = mapped.targets().read(0, at, out.subspan(at, kChunkBytes)); !ok) {
      return propagate(ok);
    }
  }
  return made;
}

void check_transposed(const std::vector<std::uint16_t>& all,
                      const std::vector<std::uint16_t>& made) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t k = 0; k < kColumns; ++k) {
      wrong += made[k * kRows + i] == all[i * kColumns + k] ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("A map reads what it transposes twice, however many panels there are") {
  const auto all = numbers();
  const auto source = file_of(all, 0);
  const auto mapped = transposed(source);
  CHECK(mapped.targets().passes(0) == 2);
  source->read_bytes = 0;
  const auto made = read_all(mapped);
  REQUIRE(made);
  check_transposed(all, *made);
  CHECK(source->read_bytes <= 2 * kRows * kColumns * sizeof(all[0]));
}

TEST_CASE("A map reads compressed tensors once for each panel") {
  const auto all = numbers();
  const auto mapped = transposed(file_of(all, 1));
  CHECK(mapped.targets().passes(0) > 2);
  const auto made = read_all(mapped);
  REQUIRE(made);
  check_transposed(all, *made);
}

TEST_CASE("A file that changes between two panels is found") {
  const auto all = numbers();
  const auto source = file_of(all, 0);
  const auto mapped = transposed(source);
  source->read_bytes = 0;
  source->change_at = static_cast<std::size_t>(source->size() - 2 * kColumns - 2);
  source->change_after = 3 * kRows * kColumns;  // in the second pass
  const auto made = read_all(mapped);
  REQUIRE(!made);
  CHECK(made.error().code == ErrorCode::kChunkCorrupt);
}

}  // namespace
}  // namespace espalier
