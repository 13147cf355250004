// Compressed files on disk: saved, read in every way, and damaged.
#include <stdexcept>
#include <vector>

#include "support/equal.h"
#include "support/in_child.h"
#include "support/memory_file.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <unistd.h>

#include "espalier/base/little_endian.h"
#include "espalier/checkpoint_file.h"
#include "espalier/codec/codec.h"
#include "espalier/codec/compression_level.h"
#include "espalier/read/plan.h"
#include "espalier/save.h"
#include "espalier/save_foreign.h"

namespace espalier {
namespace {

using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kColumns = 700;
constexpr std::uint64_t kRows = 1500;

// Numbers whose exponents are alike.
Bytes weights(std::uint64_t elements) {
  testing::Random random(1);
  Bytes bytes(4 * elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto bits = static_cast<std::uint32_t>(random.bits());
    store_le(bytes.data() + 4 * i, (bits & 0x807FFFFFu) | (120 + bits % 5) << 23);
  }
  return bytes;
}

Value tensor(DType dtype, std::vector<std::uint64_t> shape, Bytes bytes) {
  Tensor made{.dtype = dtype, .shape = std::move(shape)};
  made.data = TensorData::owned(std::move(bytes));
  return Value::tensor(std::move(made));
}

Value example() {
  Value many = Value::list();
  for (int i = 0; i < 300; ++i) many.add(tensor(DType::kF32, {100}, weights(100)));
  Bytes text(100'000);
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<std::byte>("leaves and branches "[i % 20]);
  }
  return Value::dict(
      {{"weights", tensor(DType::kF32, {kRows, kColumns}, weights(kRows * kColumns))},
       {"zeros", tensor(DType::kF64, {400'000}, Bytes(3'200'000))},
       {"text", tensor(DType::kU8, {100'000}, std::move(text))},
       {"empty", tensor(DType::kF32, {0}, {})},
       {"many", std::move(many)},
       {"step", Value::integer(3)}});
}

const OpenFileOptions kWays[] = {{.access = Access::kMapped, .threads = 1},
                                 {.access = Access::kMapped, .threads = 4},
                                 {.access = Access::kRead, .threads = 1},
                                 {.access = Access::kRead, .threads = 4}};

SaveOptions compressed(unsigned threads = 0) {
  return {.sync = false, .threads = threads, .compression_level = kFastCompression};
}

TEST_CASE("A compressed file is smaller, and the same state in every way of reading it") {
  const TemporaryFolder folder;
  const Value state = example();
  REQUIRE(save(folder / "plain", state, {.sync = false}));
  REQUIRE(save(folder / "small", state, compressed()));
  CHECK(2 * std::filesystem::file_size(folder / "small") <
        std::filesystem::file_size(folder / "plain"));
  const auto plain = CheckpointFile::open(folder / "plain");
  REQUIRE(plain);
  for (const OpenFileOptions& way : kWays) {
    const auto file = CheckpointFile::open(folder / "small", way);
    REQUIRE(file);
    CHECK(file->checkpoint().catalog().tree_digest() ==
          plain->checkpoint().catalog().tree_digest());
    CHECK(testing::first_difference(state, file->load(file->state()).value()) == "");
    CHECK(testing::first_difference(state, file->load_lazily(file->state()).value()) == "");
    const auto report = file->verify();
    REQUIRE(report);
    CHECK(report->error_count == 0);
    const std::vector<std::vector<Slice>> slices = {
        {}, {{3, 4}}, {{5, 900, 7}, {7, -1, 11}}, {{100, 1400}}, {{}, {1, 2}}, {{9, 9}}};
    for (const auto& slice : slices) {
      const auto read = file->slice(*file->state().at("weights")->tensor(), slice);
      const auto expected = plain->slice(*plain->state().at("weights")->tensor(), slice);
      REQUIRE(read);
      REQUIRE(expected);
      CHECK(std::ranges::equal(read->bytes(), expected->bytes()));
    }
  }
}

TEST_CASE("Saving the state of a compressed file again gives the same file") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "first", example(), compressed()));
  const auto file = CheckpointFile::open(folder / "first", {.access = Access::kRead});
  REQUIRE(file);
  REQUIRE(save(folder / "second", file->load_lazily(file->state()).value(), compressed(3)));
  CHECK(testing::read_whole(folder / "first") == testing::read_whole(folder / "second"));
}

TEST_CASE("A row of a compressed tensor needs one chunk, or two") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", example(), compressed()));
  const auto file = CheckpointFile::open(folder / "file");
  REQUIRE(file);
  const TensorRef weights = *file->state().at("weights")->tensor();
  REQUIRE(weights.chunk_count() == 5);
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(kRows); ++row) {
    const Slice one[] = {{row, row + 1}};
    const auto plan = ReadPlan::make(weights, one);
    REQUIRE(plan);
    CHECK(plan->chunks().size() <= 2);
    for (std::size_t i = 0; i < plan->chunks().size(); ++i) CHECK_FALSE(plan->direct_offset(i));
  }
}

TEST_CASE("Damage to compressed bytes is found where it is, and nothing else is lost") {
  const TemporaryFolder folder;
  const Value state = example();
  REQUIRE(save(folder / "file", state, compressed()));
  const auto intact = CheckpointFile::open(folder / "file");
  REQUIRE(intact);
  const std::uint32_t chunk = intact->state().at("weights")->tensor()->first_chunk() + 2;
  const ChunkRecord& record = intact->checkpoint().catalog().tables().chunks[chunk];
  REQUIRE(record.codec == static_cast<std::uint8_t>(Codec::kPlanes));
  Bytes bytes = testing::read_whole(folder / "file");
  for (const std::uint64_t at :
       {std::uint64_t{0}, std::uint64_t{20}, std::uint64_t{record.stored} - 1}) {
    CAPTURE(at);
    bytes[record.offset + at] ^= std::byte{0x10};
    REQUIRE(testing::write_whole(folder / "bad", bytes));
    bytes[record.offset + at] ^= std::byte{0x10};
    for (const OpenFileOptions& way : kWays) {
      const auto file = CheckpointFile::open(folder / "bad", way);
      REQUIRE(file);
      const auto loaded = file->load(file->state());
      REQUIRE_FALSE(loaded);
      CHECK(loaded.error().code == ErrorCode::kChunkCorrupt);
      CHECK(loaded.error().offset == record.offset);
      CHECK(loaded.error().path == "weights");
      const auto report = file->verify();
      REQUIRE(report);
      REQUIRE(report->error_count == 1);
      CHECK(report->errors[0].offset == record.offset);
      CHECK(report->errors[0].path == "weights");
      const Slice first[] = {{0, 10}};
      CHECK(file->slice(*file->state().at("weights")->tensor(), first));
      CHECK(file->load(*file->state().at("many")));
    }
  }
}

TEST_CASE("The memory of a load is bounded, even for a small file") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "file", example(), compressed()));
  OpenFileOptions options;
  options.limits.decoded_bytes = 5'000'000;
  const auto file = CheckpointFile::open(folder / "file", options);
  REQUIRE(file);
  const auto loaded = file->load(file->state());
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == ErrorCode::kLimitExceeded);
  CHECK(file->load(*file->state().at("zeros")));
}

TEST_CASE("A producer that fails ends a compressed save, and no thread waits for it") {
  const TemporaryFolder folder;
  for (const bool throws : {false, true}) {
    for (const unsigned threads : {1u, 4u}) {
      CAPTURE(throws);
      CAPTURE(threads);
      Tensor fails{.dtype = DType::kF32, .shape = {5'000'000}};
      fails.data = TensorData::produced([=](std::uint64_t offset, MutableByteSpan out) {
        if (offset >= 9'000'000 && throws) throw std::runtime_error("the cable is out");
        if (offset >= 9'000'000) return Result<void>(fail(ErrorCode::kIoError, "no more"));
        std::fill(out.begin(), out.end(), std::byte{7});
        return Result<void>{};
      });
      const Value state = Value::dict({{"w", Value::tensor(std::move(fails))}});
      if (throws) {
        CHECK_THROWS_AS(static_cast<void>(save(folder / "file", state, compressed(threads))),
                        std::runtime_error);
      } else {
        const auto saved = save(folder / "file", state, compressed(threads));
        REQUIRE_FALSE(saved);
        CHECK(saved.error().code == ErrorCode::kIoError);
        CHECK(saved.error().path == "w");
      }
      CHECK(folder.size() == 0);
    }
  }
}

TEST_CASE("Levels that there are not are refused before anything is written") {
  const TemporaryFolder folder;
  for (const int level : {-1, 10, 1000}) {
    SaveOptions options = compressed();
    options.compression_level = level;
    const auto saved = save(folder / "file", Value::dict(), options);
    REQUIRE_FALSE(saved);
    CHECK(saved.error().code == ErrorCode::kInvalidArgument);
    CHECK(folder.size() == 0);
  }
  CHECK(save_safetensors(folder / "file", Value::dict(), compressed()).error().code ==
        ErrorCode::kInvalidArgument);
  CHECK(folder.size() == 0);
  CHECK(save(folder / "file", Value::dict(), compressed()));
}

TEST_CASE("Progress of a compressed save goes up to the whole") {
  const TemporaryFolder folder;
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  SaveOptions options = compressed(2);
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    CHECK(done >= last);
    last = done;
    total = all;
  };
  REQUIRE(save(folder / "file", example(), options));
  CHECK(last == total);
  CHECK(total > 0);
}

TEST_CASE("A mapped file that is cut is an error of all reads that copy") {
  const TemporaryFolder folder;
  for (const SaveOptions& options : {SaveOptions{.sync = false}, compressed()}) {
    REQUIRE(save(folder / "cut", example(), options));
    // In a process of its own: touching the mapping would end it.
    const int failure = testing::in_child([&] {
      const auto file = CheckpointFile::open(folder / "cut", {.threads = 2});
      if (!file || ::truncate((folder / "cut").c_str(), 4096) != 0) return 1;
      const TensorRef tensor = *file->state().at("weights")->tensor();
      const auto is_changed = [](const auto& result) {
        return !result && result.error().code == ErrorCode::kFileChanged;
      };
      if (!is_changed(file->slice(tensor, {}))) return 2;
      const Slice rows[] = {{.start = 700, .stop = 701}};
      if (!is_changed(file->slice(tensor, rows))) return 3;
      Bytes out(tensor.bytes());
      if (!is_changed(file->read_into(tensor, {}, out))) return 4;
      std::vector<float> elements(tensor.elements());
      if (!is_changed(file->load_into({{"weights", elements}}))) return 5;
      return 0;
    });
    CHECK(failure == 0);
  }
}

}  // namespace
}  // namespace espalier
