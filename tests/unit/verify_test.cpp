#include "espalier/read/verify.h"

#include <string>
#include <vector>

#include "support/feed.h"
#include "support/memory_file.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/codec/hash.h"
#include "espalier/format/header.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

Value tensor(std::uint64_t bytes) {
  Tensor made;
  made.dtype = DType::kU8;
  made.shape = {bytes};
  made.data = TensorData::owned(Bytes(bytes, std::byte{5}));
  return Value::tensor(std::move(made));
}

// Small tensors with padding between them, an empty one, and one of three chunks.
Bytes example() {
  auto file = testing::write_file(Value::dict({{"a", tensor(10)},
                                               {"b", tensor(100)},
                                               {"none", tensor(0)},
                                               {"large", tensor(2 * kChunkBytes + 3)},
                                               {"z", tensor(1)}}));
  REQUIRE(file);
  return std::move(*file);
}

Extent place(const Checkpoint& checkpoint, const char* path) {
  return *checkpoint.state().at(path)->tensor()->raw_extent();
}

std::string summary(const VerifyReport& report) {
  std::string text = std::to_string(report.error_count) + " in " + std::to_string(report.chunks) +
                     " chunks, " + std::to_string(report.bytes) + " bytes";
  for (const Error& error : report.errors) text += "\n" + error.describe();
  return text;
}

// The same report, however the bytes arrive.
VerifyReport verify(const Bytes& file) {
  const auto checkpoint = testing::open_file(file);
  REQUIRE(checkpoint);
  Verify whole(*checkpoint);
  if (!whole.needs().empty()) CHECK(whole.finish().error().code == ErrorCode::kIncomplete);
  CHECK(testing::feed_whole(whole, file));
  auto report = whole.finish();
  REQUIRE(report);
  testing::Random random(31);
  for (int round = 0; round < 5; ++round) {
    Verify other(*checkpoint);
    CHECK((round == 0 ? testing::feed_steps(other, file, 9999)
                      : testing::feed_scrambled(other, file, random)));
    const auto again = other.finish();
    REQUIRE(again);
    CHECK(summary(*again) == summary(*report));
  }
  return std::move(*report);
}

TEST_CASE("An intact file verifies, to the last byte") {
  const Bytes file = example();
  const auto checkpoint = testing::open_file(file);
  REQUIRE(checkpoint);
  const VerifyReport report = verify(file);
  CHECK(report.error_count == 0);
  CHECK(report.errors.empty());
  CHECK(report.chunks == 6);
  CHECK(report.bytes == file.size() - checkpoint->catalog().data_begin());
  CHECK(report.has_hashes);
}

TEST_CASE("Regions of any size cover everything after the index once") {
  const Bytes file = example();
  const auto checkpoint = testing::open_file(file);
  REQUIRE(checkpoint);
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{200}, std::uint64_t{1} << 40}) {
    const VerifyPlan plan(*checkpoint, size);
    std::uint64_t end = checkpoint->catalog().data_begin();
    std::uint32_t chunk = 0;
    for (const Region& region : plan.regions()) {
      CHECK(region.extent.offset == end);
      CHECK(region.first == chunk);
      CHECK(region.chunk_count > 0);
      end += region.extent.length;
      chunk += region.chunk_count;
    }
    CHECK(end == file.size());
    CHECK(chunk == 6);
    CHECK(plan.bytes() == file.size() - checkpoint->catalog().data_begin());
  }
}

TEST_CASE("Every damaged byte after the index is found") {
  const Bytes file = example();
  const auto checkpoint = testing::open_file(file);
  REQUIRE(checkpoint);
  const VerifyPlan plan(*checkpoint);
  const std::uint64_t begin = checkpoint->catalog().data_begin();
  const std::uint64_t large = place(*checkpoint, "large").offset;
  Bytes damaged = file;
  for (std::uint64_t at = begin; at < file.size();) {
    CAPTURE(at);
    damaged[at] ^= std::byte{0x01};
    std::size_t found = 0;
    ChunkReader reader;
    for (std::size_t i = 0; i < plan.regions().size(); ++i) {
      const Extent& extent = plan.regions()[i].extent;
      if (at < extent.offset || at >= extent.offset + extent.length) continue;
      found += plan.check_region(i, testing::bytes_at(damaged, extent), reader).value().size();
    }
    CHECK(found == 1);
    damaged[at] ^= std::byte{0x01};
    // All bytes of the small tensors and the padding, a few of the large one.
    at += at >= large && at + 300'000 < file.size() ? 299'977 : 1;
    if (at > large + 10 && at + 300 < file.size() && at + 300'000 >= file.size()) {
      at = file.size() - 300;
    }
  }
}

TEST_CASE("Damage is named with its place and its tensor") {
  Bytes file = example();
  const auto checkpoint = testing::open_file(file);
  REQUIRE(checkpoint);
  const std::uint64_t large = place(*checkpoint, "large").offset;
  const std::uint64_t padding = place(*checkpoint, "a").offset + 10;
  file[large + kChunkBytes + 1] ^= std::byte{1};
  file[large + 2 * kChunkBytes] ^= std::byte{1};
  file[place(*checkpoint, "z").offset] ^= std::byte{1};
  file[padding + 3] = std::byte{1};
  file[padding + 4] = std::byte{1};
  const VerifyReport report = verify(file);
  CHECK(report.error_count == 4);
  REQUIRE(report.errors.size() == 4);
  CHECK(report.errors[0].code == ErrorCode::kPaddingCorrupt);
  CHECK(report.errors[0].offset == padding + 3);
  CHECK(report.errors[0].path == "b");
  CHECK(report.errors[1].code == ErrorCode::kChunkCorrupt);
  CHECK(report.errors[1].offset == large + kChunkBytes);
  CHECK(report.errors[1].path == "large");
  CHECK(report.errors[2].offset == large + 2 * kChunkBytes);
  CHECK(report.errors[2].path == "large");
  CHECK(report.errors[3].path == "z");
}

TEST_CASE("Damage of a tied tensor is named like an error of reading it") {
  Tensor tensor;
  tensor.dtype = DType::kU8;
  tensor.shape = {64};
  tensor.data = TensorData::owned(std::vector<std::byte>(64, std::byte{7}));
  const Value tied = Value::tensor(tensor);
  // A walk reaches "deep/first" before "last", whose node number is lower.
  const auto written =
      testing::write_file(Value::dict({{"deep", Value::dict({{"first", tied}})}, {"last", tied}}));
  REQUIRE(written);
  auto file = *written;
  file.back() ^= std::byte{1};
  const auto checkpoint = testing::open_file(file);
  REQUIRE(checkpoint);
  Verify verify(*checkpoint);
  REQUIRE(verify.feed({0, 0, file.size()}, file));
  const auto report = verify.finish();
  REQUIRE(report);
  REQUIRE(report->errors.size() == 1);
  CHECK(report->errors[0].path == "last");
  CHECK(tensor_path(checkpoint->tensor(0)) == "last");
}

TEST_CASE("A region that is cut short is truncated") {
  const Bytes file = example();
  const auto checkpoint = testing::open_file(file);
  REQUIRE(checkpoint);
  const VerifyPlan plan(*checkpoint, 1);
  const Extent& extent = plan.regions()[1].extent;
  ChunkReader reader;
  const auto damage =
      plan.check_region(1, testing::bytes_at(file, {0, extent.offset, extent.length - 1}), reader);
  REQUIRE(damage);
  REQUIRE(damage->size() == 1);
  CHECK(damage->front().fault == Fault::kEndsEarly);
}

TEST_CASE("A wrong tree digest is found though every hash fits") {
  Bytes file = example();
  file[kTreeDigestOffset] ^= std::byte{1};
  store_le(&file[120], hash64(ByteSpan(file).first(120)));
  const VerifyReport report = verify(file);
  CHECK(report.error_count == 1);
  REQUIRE(report.errors.size() == 1);
  CHECK(report.errors[0].code == ErrorCode::kDigestMismatch);
  CHECK(report.errors[0].offset == 64);
}

TEST_CASE("A report names the first thousand spots and counts them all") {
  Value list = Value::list();
  for (int i = 0; i < 1500; ++i) list.add(tensor(1));
  auto file = testing::write_file(list);
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  for (std::uint32_t i = 0; i < 1500; ++i) {
    (*file)[checkpoint->tensor(i).raw_extent()->offset] ^= std::byte{1};
  }
  const VerifyReport report = verify(*file);
  CHECK(report.error_count == 1500);
  REQUIRE(report.errors.size() == kMaxReportedErrors);
  for (std::size_t i = 0; i < report.errors.size(); ++i) {
    CHECK(report.errors[i].path == std::to_string(i));
  }
}

TEST_CASE("A file without tensors has nothing but its tree to verify") {
  const auto file = testing::write_file(Value::dict());
  REQUIRE(file);
  const VerifyReport report = verify(*file);
  CHECK(report.error_count == 0);
  CHECK(report.chunks == 0);
  CHECK(report.bytes == 0);
}

}  // namespace
}  // namespace espalier
