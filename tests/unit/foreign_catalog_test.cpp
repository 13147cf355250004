// Catalogs of other formats: storages, chunks that are not contiguous, made files and notes.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/notes.h"
#include "espalier/read/opening_machine.h"
#include "files/open/machine_opening.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

// One tensor of i16, 2 by 3, transposed, in a file of 32 bytes.
struct Foreign {
  ForeignParts parts;

  Foreign() {
    parts.format = &kSafetensorsFormat;
    parts.files = {{.length = 32}};
    OwnedTables& tables = parts.tables;
    tables.nodes = {{.kind = static_cast<std::uint8_t>(Kind::kTensor)},
                    {.kind = static_cast<std::uint8_t>(Kind::kDict), .value = 2}};
    tables.tensors = {{.dtype = static_cast<std::uint8_t>(DType::kI16)}};
    tables.shape_ends = {2};
    tables.dims = {2, 3};
    tables.storages = {{.flags = kStorageStrided, .elements = 8, .offset = 1}};
    tables.strides = {1, 2};
    tables.chunks = {{.offset = 4, .hash = {}, .stored = 16}};
  }

  Result<std::shared_ptr<const Catalog>> open() const {
    return Catalog::from_foreign(parts, Limits());
  }
};

std::string opened(const std::function<void(Foreign&)>& change) {
  Foreign foreign;
  change(foreign);
  const auto catalog = foreign.open();
  return catalog ? "ok" : std::string(to_string(catalog.error().code));
}

TEST_CASE("No storage leads out of its chunks") {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
  using F = Foreign;
  CHECK(opened([](F&) {}) == "ok");
  CHECK(opened([](F& f) { f.parts.tables.storages[0].offset = 2; }) == "ok");
  const std::function<void(F&)> wrong[] = {
      [](F& f) { f.parts.tables.storages[0].offset = 3; },
      [](F& f) { f.parts.tables.storages[0].offset = ~std::uint64_t{0}; },
      [](F& f) { f.parts.tables.strides[1] = 4; },
      [](F& f) { f.parts.tables.strides[1] = kHuge; },
      [](F& f) { f.parts.tables.strides[0] = ~std::uint64_t{0}; },
      [](F& f) { f.parts.tables.storages[0].elements = kHuge; },
      [](F& f) { f.parts.tables.strides.pop_back(); },
      [](F& f) { f.parts.tables.strides.push_back(0); },
      [](F& f) { f.parts.tables.storages[0].first_stride = 1; },
      [](F& f) {
        f.parts.tables.storages[0].tensor = 1;
        f.parts.tables.chunks[0].stored = 12;
      },
      [](F& f) { f.parts.tables.storages.push_back(f.parts.tables.storages[0]); },
      [](F& f) { f.parts.tables.storages[0].flags = 0; },
      [](F& f) { f.parts.tables.storages[0].flags |= 16; },
      [](F& f) { f.parts.tables.storages[0].flags |= kStorageConjugated; },
      [](F& f) {
        f.parts.tables.tensors[0].dtype = static_cast<std::uint8_t>(DType::kBool);
        f.parts.tables.storages[0].flags |= kStorageNegated;
        f.parts.tables.chunks[0].stored = 8;
      },
      [](F& f) {
        f.parts.tables.tensors[0].dtype = static_cast<std::uint8_t>(DType::kI8);
        f.parts.tables.storages[0].flags |= kStorageSwapped;
        f.parts.tables.chunks[0].stored = 8;
      },
      // A bomb: 2^62 elements for one that is stored, twice.
      [](F& f) {
        f.parts.tables.dims = {kHuge / 2, 1};
        f.parts.tables.strides = {0, 0};
      },
  };
  for (std::size_t i = 0; i < std::size(wrong); ++i) {
    CAPTURE(i);
    CHECK(opened(wrong[i]) == "tensor_invalid");
  }
  CHECK(opened([](F& f) { f.parts.tables.chunks[0].stored = 12; }) == "chunk_invalid");
  CHECK(opened([](F& f) { f.parts.tables.chunks[0].offset = 17; }) == "chunk_invalid");
  // Hashes are of the chunks' bytes, which are not the tensor's.
  CHECK(opened([](F& f) { f.parts.tree_digest = Hash128(); }) == "invalid_argument");
}

TEST_CASE("Chunks of one tensor stand apart, in ascending order") {
  const auto two_chunks = [](std::uint32_t file, std::uint64_t offset) {
    return opened([&](Foreign& f) {
      f.parts.tables.storages.clear();
      f.parts.tables.strides.clear();
      f.parts.tables.tensors[0].dtype = static_cast<std::uint8_t>(DType::kI8);
      f.parts.tables.dims = {1, kChunkBytes + 1};
      f.parts.files = {{.length = 3 * kChunkBytes}, {.name = "second", .length = 9}};
      f.parts.tables.chunks = {
          {.offset = 100, .hash = {}, .stored = kChunkBytes},
          {.offset = offset, .hash = {}, .stored = 1, .file = static_cast<std::uint16_t>(file)}};
    });
  };
  CHECK(two_chunks(0, kChunkBytes + 100) == "ok");
  CHECK(two_chunks(0, kChunkBytes + 900) == "ok");
  CHECK(two_chunks(1, 8) == "ok");
  CHECK(two_chunks(0, kChunkBytes + 99) == "chunk_invalid");
  CHECK(two_chunks(0, 0) == "chunk_invalid");
  CHECK(two_chunks(1, 9) == "chunk_invalid");
  CHECK(two_chunks(2, 0) == "chunk_invalid");
}

TEST_CASE("A catalog keeps notes, and counts those that it does not keep") {
  Foreign foreign;
  const Note note{Note::Kind::kLoss, "a/b", "an object of an unknown class"};
  for (std::size_t i = 0; i < Notes::kMaxListed + 5; ++i) foreign.parts.notes.add(note);
  const auto catalog = foreign.open();
  REQUIRE(catalog);
  CHECK((*catalog)->notes().count() == Notes::kMaxListed + 5);
  CHECK((*catalog)->notes().listed().size() == Notes::kMaxListed);
  CHECK((*catalog)->notes().listed().back() == note);
}

// Makes a file of each byte of file 0 plus 1; counts how often, and fails for a byte of 255.
class Incrementer : public FileMaker {
 public:
  explicit Incrementer(std::uint64_t length) : length_(length) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override {
    ++started;
    return std::make_unique<Machine>(out.first(static_cast<std::size_t>(length_)));
  }

  mutable std::atomic<int> started = 0;

 private:
  class Machine : public MakingMachine {
   public:
    explicit Machine(MutableByteSpan out) : out_(out), needs_{{0, 0, out.size()}} {}
    std::span<const Extent> needs() const override { return needs_; }
    Result<void> feed(const Extent& extent, ByteSpan bytes) override {
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] == std::byte{255}) {
          return fail(ErrorCode::kTensorInvalid, "no room for one more", extent.offset + i);
        }
        const auto byte = static_cast<std::byte>(std::to_integer<unsigned>(bytes[i]) + 1);
        out_[static_cast<std::size_t>(extent.offset) + i] = byte;
      }
      needs_[0].offset += extent.length;
      needs_[0].length -= extent.length;
      if (needs_[0].length == 0) needs_.clear();
      return {};
    }
    Result<void> finish() override { return {}; }

   private:
    MutableByteSpan out_;
    std::vector<Extent> needs_;
  };

  std::uint64_t length_;
};

class ReadyMachine : public OpeningMachine {
 public:
  explicit ReadyMachine(Foreign foreign) : foreign_(std::move(foreign)) {}
  std::span<const Extent> needs() const override { return {}; }
  Result<void> feed(const Extent&, ByteSpan) override { return {}; }
  Result<Checkpoint> finish() override {
    auto catalog = foreign_.open();
    if (!catalog) return propagate(catalog);
    return Checkpoint(std::move(*catalog));
  }

 private:
  Foreign foreign_;
};

// One tensor of u8 in a made file, which is as long as file 0.
Result<CheckpointFile> open_made(const fs::path& path, std::uint64_t length,
                                 const std::shared_ptr<Incrementer>& maker, Access access,
                                 const Limits& limits) {
  return MachineOpening::open(path, {.access = access, .limits = limits}, [&](const OpenOptions&) {
    Foreign foreign;
    foreign.parts.tables.storages.clear();
    foreign.parts.tables.strides.clear();
    foreign.parts.tables.tensors[0].dtype = static_cast<std::uint8_t>(DType::kU8);
    foreign.parts.tables.shape_ends = {1};
    foreign.parts.tables.dims = {length};
    foreign.parts.tables.chunks.clear();
    for (std::uint64_t at = 0; at < length; at += kChunkBytes) {
      const auto stored = static_cast<std::uint32_t>(std::min(length - at, kChunkBytes));
      foreign.parts.tables.chunks.push_back(
          {.offset = at, .hash = {}, .stored = stored, .file = 1});
    }
    foreign.parts.files = {{.length = length}, {.name = "made", .length = length, .maker = maker}};
    return std::make_unique<ReadyMachine>(std::move(foreign));
  });
}

TEST_CASE("A file is made once, when it is first read, within the limit") {
  const TemporaryFolder folder;
  constexpr std::uint64_t kLength = 9 * kChunkBytes + 17;
  Bytes bytes(kLength);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  Bytes expected = bytes;
  for (std::byte& byte : expected) byte = static_cast<std::byte>(std::to_integer<int>(byte) + 1);
  REQUIRE(testing::write_whole(folder / "file", bytes));
  for (const Access access : {Access::kMapped, Access::kRead}) {
    const auto maker = std::make_shared<Incrementer>(kLength);
    const auto file = open_made(folder / "file", kLength, maker, access, {.made_bytes = kLength});
    REQUIRE(file);
    const TensorRef tensor = *file->state().tensor();
    CHECK(maker->started == 0);
    std::vector<std::thread> threads;
    threads.reserve(4);
    std::atomic<int> good = 0;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const auto read = file->slice(tensor, {});
        good += read && std::ranges::equal(read->bytes(), expected) ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(good == 4);
    CHECK(maker->started == 1);
    const Slice tail[] = {{.start = -3}};
    const auto slice = file->slice(tensor, tail);
    REQUIRE(slice);
    CHECK(std::ranges::equal(slice->bytes(), std::span(expected).last(3)));
    CHECK(file->load(file->state()));
    CHECK(maker->started == 1);
  }
  const auto maker = std::make_shared<Incrementer>(kLength);
  const auto file =
      open_made(folder / "file", kLength, maker, Access::kMapped, {.made_bytes = kLength - 1});
  REQUIRE(file);
  const auto read = file->slice(*file->state().tensor(), {});
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::kLimitExceeded);
  CHECK(read.error().file == "made");
  CHECK(maker->started == 0);
}

TEST_CASE("A file that cannot be made gives the same error each time") {
  const TemporaryFolder folder;
  Bytes bytes(1000);
  bytes[700] = std::byte{255};
  REQUIRE(testing::write_whole(folder / "file", bytes));
  const auto maker = std::make_shared<Incrementer>(1000);
  const auto file = open_made(folder / "file", 1000, maker, Access::kMapped, {});
  REQUIRE(file);
  for (int i = 0; i < 2; ++i) {
    const auto read = file->slice(*file->state().tensor(), {});
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::kTensorInvalid);
    CHECK(read.error().offset == 700);
    CHECK(read.error().file == "made");
  }
  CHECK(maker->started == 1);
}

}  // namespace
}  // namespace espalier
