#include "espalier/read/fetch.h"

#include <vector>

#include "support/feed.h"
#include "support/memory_file.h"
#include <doctest/doctest.h>

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

struct Subject {
  Bytes file;
  Checkpoint checkpoint;
  TensorRef tensor;
  std::vector<Slice> slices;
};

Subject make(std::uint64_t rows, std::vector<Slice> slices, DType dtype = DType::kU8) {
  testing::Random random(rows);
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = {rows, 1000};
  Bytes contents(rows * 1000 * dtype_bits(dtype) / 8);
  for (std::byte& byte : contents) byte = static_cast<std::byte>(random.bits());
  tensor.data = TensorData::owned(contents);
  Tensor first = tensor;
  first.shape = {100};
  first.dtype = DType::kU8;
  first.data = TensorData::owned(Bytes(100));
  auto file = testing::write_file(Value::list({Value::tensor(first), Value::tensor(tensor)}));
  REQUIRE(file);
  auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  const TensorRef ref = *checkpoint->state().at("1")->tensor();
  return {std::move(*file), std::move(*checkpoint), ref, std::move(slices)};
}

TEST_CASE("A read gives the same bytes, however the file's bytes arrive") {
  testing::Random random(21);
  for (const Subject& subject :
       {make(3, {}), make(2500, {}), make(2500, {{5, 2400, 7}, {3, 40, 2}}),
        make(5000, {{}, {1, 4, 1}}, DType::kU4), make(0, {})}) {
    const auto expected = testing::read_tensor(subject.file, subject.tensor, subject.slices);
    REQUIRE(expected);
    for (int round = 0; round < 8; ++round) {
      auto plan = ReadPlan::make(subject.tensor, subject.slices);
      REQUIRE(plan);
      Bytes out(plan->bytes(), std::byte{0xA5});
      Fetch fetch(std::move(*plan), out);
      if (!fetch.needs().empty()) CHECK(fetch.finish().error().code == ErrorCode::kIncomplete);
      const auto fed = round < 2
                           ? testing::feed_steps(fetch, subject.file, round == 0 ? 997 : 65536)
                           : testing::feed_scrambled(fetch, subject.file, random);
      CHECK(fed);
      CHECK(fetch.finish());
      CHECK(out == *expected);
    }
  }
}

TEST_CASE("A small read takes its bytes one by one") {
  const Subject subject = make(3, {});
  const auto expected = testing::read_tensor(subject.file, subject.tensor);
  REQUIRE(expected);
  Bytes out(3000);
  Fetch fetch(ReadPlan::make(subject.tensor).value(), out);
  CHECK(testing::feed_steps(fetch, subject.file, 1));
  CHECK(fetch.finish());
  CHECK(out == *expected);
}

TEST_CASE("A damaged chunk fails a read, however its bytes arrive") {
  Subject subject = make(2500, {});
  subject.file[subject.tensor.raw_extent()->offset + kChunkBytes + 5] ^= std::byte{1};
  testing::Random random(22);
  for (int round = 0; round < 6; ++round) {
    Bytes out(2'500'000);
    Fetch fetch(ReadPlan::make(subject.tensor).value(), out);
    const auto fed = round == 0   ? testing::feed_whole(fetch, subject.file)
                     : round == 1 ? testing::feed_steps(fetch, subject.file, 10000)
                                  : testing::feed_scrambled(fetch, subject.file, random);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().code == ErrorCode::kChunkCorrupt);
    CHECK(fed.error().path == "1");
    CHECK(fed.error().offset == subject.tensor.raw_extent()->offset + kChunkBytes);
    CHECK(fetch.finish().error().code == ErrorCode::kIncomplete);
  }
}

}  // namespace
}  // namespace espalier
