#include "espalier/write/writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "support/memory_file.h"
#include "support/random.h"
#include <doctest/doctest.h>

#include "espalier/format/access.h"
#include "espalier/format/header.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

Bytes contents(std::uint64_t size, std::uint64_t seed) {
  testing::Random random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return bytes;
}

Tensor tensor(Bytes bytes, bool produced = false) {
  Tensor made;
  made.dtype = DType::kU8;
  made.shape = {bytes.size()};
  if (produced) {
    made.data = TensorData::produced(
        [held = std::move(bytes)](std::uint64_t offset, MutableByteSpan out) -> Result<void> {
          REQUIRE(offset + out.size() <= held.size());
          std::copy_n(held.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
          return {};
        });
  } else {
    made.data = TensorData::owned(std::move(bytes));
  }
  return made;
}

constexpr std::uint64_t kSizes[] = {0,     1,           63,
                                    64,    65,          1000,
                                    65535, 65536,       65537,
                                    0,     kChunkBytes, kChunkBytes + 1,
                                    300,   700'000,     2 * kChunkBytes + 70'000,
                                    5};

Value tree(auto is_produced) {
  Value list = Value::list();
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    list.add(Value::tensor(tensor(contents(kSizes[i], i), is_produced(i))));
  }
  return list;
}

TEST_CASE("Tensors made on demand give the same file as tensors in memory") {
  const auto memory = testing::write_file(tree([](std::size_t) { return false; }));
  const auto produced = testing::write_file(tree([](std::size_t) { return true; }));
  const auto mixed = testing::write_file(tree([](std::size_t i) { return i % 3 == 1; }));
  REQUIRE(memory);
  REQUIRE(produced);
  REQUIRE(mixed);
  CHECK(*memory == *produced);
  CHECK(*memory == *mixed);
  const auto checkpoint = testing::open_file(*memory);
  REQUIRE(checkpoint);
  for (std::uint32_t i = 0; i < std::size(kSizes); ++i) {
    CHECK(testing::read_tensor(*memory, *checkpoint->state().child(i).tensor()).value() ==
          contents(kSizes[i], i));
  }
}

TEST_CASE("Pieces are ordered, disjoint and bounded, and cover every chunk once") {
  for (const bool produced : {false, true}) {
    auto writer = Writer::plan(tree([&](std::size_t) { return produced; }));
    REQUIRE(writer);
    std::uint64_t end = kHeaderBytes;
    std::uint32_t chunk = 0;
    Writer::Scratch scratch;
    for (std::size_t i = 0; i < writer->pieces().size(); ++i) {
      const Writer::Piece& piece = writer->pieces()[i];
      CHECK(piece.length <= Writer::kPieceBytes);
      CHECK(piece.first_chunk == chunk);
      CHECK(piece.chunk_count > 0);
      const auto bytes = writer->make(i, scratch);
      REQUIRE(bytes);
      const Extent place = writer->place(i);
      CHECK(place.offset >= end);
      CHECK(place.length == piece.length);
      CHECK(bytes->size() == piece.length);
      end = place.offset + place.length;
      chunk += piece.chunk_count;
    }
    CHECK(end == writer->file_length());
    CHECK(chunk == 17);
    CHECK(writer->finish());
  }
}

TEST_CASE("Many small tensors share a piece, and large ones are written from their own memory") {
  Value list = Value::list();
  for (int i = 0; i < 1000; ++i) list.add(Value::tensor(tensor(Bytes(100))));
  const auto small = Writer::plan(list);
  REQUIRE(small);
  CHECK(small->pieces().size() == 1);

  const Bytes large = contents(kChunkBytes, 1);
  Tensor borrowed = tensor({});
  borrowed.shape = {large.size()};
  borrowed.data = TensorData::borrowed(large);
  auto writer = Writer::plan(Value::tensor(borrowed));
  REQUIRE(writer);
  Writer::Scratch scratch;
  const auto bytes = writer->make(0, scratch);
  REQUIRE(bytes);
  CHECK(bytes->data() == large.data());
}

TEST_CASE("A file is finished when every piece is made, and not before") {
  auto writer = Writer::plan(tree([](std::size_t) { return false; }));
  REQUIRE(writer);
  Writer::Scratch scratch;
  REQUIRE(writer->pieces().size() > 2);
  // In any order.
  for (std::size_t i = writer->pieces().size(); i-- > 0;) {
    CHECK(writer->finish().error().code == ErrorCode::kIncomplete);
    CHECK(writer->make(i, scratch));
  }
  CHECK(writer->finish());
}

TEST_CASE("A producer's error ends the save with the tensor's path") {
  Tensor fails = tensor(Bytes(100));
  fails.data = TensorData::produced([](std::uint64_t, MutableByteSpan) -> Result<void> {
    return fail(ErrorCode::kIoError, "the cable is out");
  });
  const auto file = testing::write_file(
      Value::dict({{"fine", Value::tensor(tensor(Bytes(100)))}, {"broken", Value::tensor(fails)}}));
  REQUIRE_FALSE(file);
  CHECK(file.error().code == ErrorCode::kIoError);
  CHECK(file.error().path == "broken");
  CHECK(file.error().message == "the cable is out");
}

TEST_CASE("The tree may go once it is planned") {
  auto writer = [] {
    const Value gone = tree([](std::size_t i) { return i % 2 == 0; });
    return Writer::plan(gone);
  }();
  REQUIRE(writer);
  Writer::Scratch scratch;
  for (std::size_t i = 0; i < writer->pieces().size(); ++i) CHECK(writer->make(i, scratch));
  CHECK(writer->finish());
}

TEST_CASE("An empty tree is header and index, and nothing else") {
  auto writer = Writer::plan(Value::dict());
  REQUIRE(writer);
  CHECK(writer->pieces().empty());
  const auto front = writer->finish();
  REQUIRE(front);
  CHECK(writer->file_length() == kHeaderBytes + front->index.size());
}

TEST_CASE("As many axes as the format allows are written and read, and no more") {
  Tensor most = tensor(contents(1, 1));
  most.shape = std::vector<std::uint64_t>(kMaxRank, 1);
  const auto file = testing::write_file(Value::tensor(most));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  CHECK(checkpoint->tensor(0).shape().size() == kMaxRank);
  most.shape.push_back(1);
  CHECK(testing::write_file(Value::tensor(most)).error().code == ErrorCode::kInvalidTree);
}

TEST_CASE("As many block types as the format allows are written and read, and no more") {
  constexpr std::uint32_t kMostBlocks = 65535;
  const auto blocks = [](std::uint32_t count) {
    Value list = Value::list();
    for (std::uint32_t i = 1; i <= count; ++i) {
      Tensor opaque = tensor(contents(1, i));
      opaque.dtype = DType::kOpaque;
      opaque.block_name = "q";
      opaque.block_elements = i;
      opaque.block_bytes = 1;
      opaque.shape = {i};
      list.add(Value::tensor(std::move(opaque)));
    }
    return list;
  };
  const auto file = testing::write_file(blocks(kMostBlocks));
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  CHECK(checkpoint->tensor(kMostBlocks - 1).block().elements == kMostBlocks);
  CHECK(testing::write_file(blocks(kMostBlocks + 1)).error().code == ErrorCode::kInvalidTree);
}

}  // namespace
}  // namespace espalier
