// Files whose chunks are patches of those of other files: saves, reads, and what goes wrong.
#include "support/patched_files.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/codec/compression_level.h"
#include "espalier/format/file_set.h"
#include "espalier/read/fetch.h"
#include "espalier/read/verify.h"
#include "espalier/save.h"

namespace espalier {
namespace {

using testing::Bytes;
using testing::chain;
using testing::Files;
using testing::kMiB;
using testing::Random;
using testing::state_at;
using testing::state_of;
using testing::weights_at;

Bytes weights_of(const CheckpointFile& file) {
  const auto view = file.tensor("weights");
  REQUIRE_MESSAGE(view, view.error().describe());
  const auto bytes = view->bytes();
  return {bytes.begin(), bytes.end()};
}

std::size_t layers_of(const CheckpointFile& file, std::uint32_t chunk) {
  return file.checkpoint().catalog().bases(chunk).size();
}

std::size_t file_count(const CheckpointFile& file) {
  return file.checkpoint().catalog().files().size();
}

Error read_error(const CheckpointFile& file) {
  const auto view = file.tensor("weights");
  REQUIRE_FALSE(view);
  return view.error();
}

TEST_CASE("Patches lie one upon the other, up to 16, and then the chunk is written") {
  for (const int level : {kNoCompression, kFastCompression}) {
    Files files = chain(19, {.compression_level = level});
    for (std::uint64_t i = 0; i < 19; ++i) {
      CAPTURE(i);
      const CheckpointFile file = files.open(std::to_string(i));
      CHECK(layers_of(file, 0) == i % 17);
      if (i % 17 != 0) CHECK(files[std::to_string(i)].size() < kMiB / 20);
      CHECK(file.verify()->errors.empty());
      CHECK(weights_of(file) == weights_at(i));
      const auto plain = save_to_memory(state_at(i));
      const auto whole = CheckpointFile::open(*plain);
      CHECK(file.checkpoint().catalog().tree_digest() ==
            whole->checkpoint().catalog().tree_digest());
    }
    // The recipe names every file that it needs.
    CHECK(file_count(files.open("16")) == 17);
    CHECK(file_count(files.open("18")) == 2);
  }
}

TEST_CASE("Slices, streams of bytes and lazy saves read patches, too") {
  Files files = chain(4);
  const CheckpointFile file = files.open("3");
  const Bytes expected = weights_at(3);
  const auto tensor = *file.state().at("weights")->tensor();
  Slice slice;
  slice.start = 100;
  slice.stop = 700'000;
  slice.step = 3;
  const auto part = file.slice(tensor, {{slice}});
  REQUIRE(part);
  Bytes wanted;
  for (std::size_t i = 100; i < 700'000; i += 3) {
    wanted.insert(wanted.end(), {expected[2 * i], expected[2 * i + 1]});
  }
  CHECK(std::ranges::equal(part->bytes(), wanted));

  auto plan = ReadPlan::make(tensor);
  REQUIRE(plan);
  Bytes out(static_cast<std::size_t>(plan->bytes()));
  Fetch fetch(std::move(*plan), out);
  std::size_t fed = 0;
  while (!fetch.needs().empty()) {
    // In pieces, from the back.
    Extent extent = fetch.needs().back();
    const std::uint64_t length = std::min<std::uint64_t>(extent.length, 300'000);
    extent = {extent.file, extent.offset + extent.length - length, length};
    const Bytes& bytes = files[extent.file == 0 ? "3" : std::to_string(extent.file - 1)];
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(extent.offset);
    const Bytes piece(begin, begin + static_cast<std::ptrdiff_t>(length));
    const auto ok = fetch.feed(extent, piece);
    REQUIRE_MESSAGE(ok, ok.error().describe());
    ++fed;
  }
  CHECK(fetch.finish());
  CHECK(out == expected);
  CHECK(fed > 9);

  const auto lazy = file.contents();
  REQUIRE(lazy);
  CHECK(lazy->compression_level == kNoCompression);
  CHECK(*save_to_memory(lazy->state) == *save_to_memory(state_at(3)));
}

TEST_CASE("Damage is found and named, whichever of the files has it") {
  Files files = chain(3);
  const auto expect = [&](const std::string& damaged, ErrorCode code) {
    const CheckpointFile file = files.open("2");
    const Error error = read_error(file);
    CHECK(to_string(error.code) == to_string(code));
    CHECK(error.file == damaged);
    CHECK(error.path == "weights");
    const auto report = file.verify();
    REQUIRE(report);
    REQUIRE(report->errors.size() == 1);
    CHECK(report->errors.front() == error);
    CHECK(report->verdict() == VerifyVerdict::kDamaged);
  };
  // In the last byte of each: of the third chunk or its patch.
  files["0"].back() ^= std::byte{4};
  expect("0", ErrorCode::kChunkCorrupt);
  files["0"].back() ^= std::byte{4};
  files["1"].back() ^= std::byte{4};
  expect("1", ErrorCode::kChunkCorrupt);
  files["1"].back() ^= std::byte{4};
  files["2"].back() ^= std::byte{4};
  {
    const CheckpointFile file = files.open("2");
    CHECK(read_error(file).code == ErrorCode::kChunkCorrupt);
    const auto report = file.verify();
    REQUIRE(report->errors.size() == 1);
    CHECK(report->errors.front().code == ErrorCode::kChunkCorrupt);
  }
  files["2"].back() ^= std::byte{4};
  CHECK(files.open("2").verify()->errors.empty());

  // Every header is that of a save of its own, even of the same state.
  files.put("1", *save_to_memory(state_at(1)));
  CHECK(read_error(files.open("2")).code == ErrorCode::kBaseMismatch);
  files.remove("1");
  const CheckpointFile file = files.open("2");
  CHECK(read_error(file).code == ErrorCode::kFileMissing);
  CHECK(file.state().at("step")->as_int64() == 2);
  const auto report = file.verify();
  REQUIRE(report->errors.size() == 1);
  CHECK(report->errors.front().code == ErrorCode::kFileMissing);
}

TEST_CASE("Every flipped bit of a small patched file shows") {
  Files files;
  const auto small_at = [](std::uint64_t step) {
    Bytes weights(2000, std::byte{7});
    for (std::size_t i = 0; i < 40; ++i) weights[i * 50] = static_cast<std::byte>(step + i * i);
    return state_of(std::move(weights), step);
  };
  files.put("0", *save_to_memory(small_at(0)));
  files.save("1", small_at(1), "0");
  const CheckpointFile base = files.open("0");
  Bytes& bytes = files["1"];
  REQUIRE(bytes.size() < 1000);
  REQUIRE(layers_of(files.open("1"), 0) == 1);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    CAPTURE(bit);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto copy = std::make_shared<const Bytes>(bytes);
    OpenFileOptions options;
    options.sibling = [&](const std::string&) -> Result<std::shared_ptr<const Source>> {
      return memory_source(Bytes(files["0"]));
    };
    const auto file = CheckpointFile::open(*copy, copy, options);
    if (file) CHECK_FALSE(file->verify()->errors.empty());
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST_CASE("What would not get small enough is written, and so is what a damaged base has") {
  Files files;
  files.put("0", *save_to_memory(state_at(0)));
  Random random(7);
  Bytes noise(5 * kMiB / 2);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(256));
  const auto is_alone = [&](const std::string& name) { return file_count(files.open(name)) == 1; };
  files.save("noise", state_of(noise, 1), "0");
  CHECK(is_alone("noise"));
  // One chunk of three is noise: 40 % of the file. Two are 80 %, and not worth it.
  Bytes mixed = weights_at(1);
  std::copy_n(noise.begin(), kMiB, mixed.begin());
  files.save("one", state_of(mixed, 1), "0");
  CHECK_FALSE(is_alone("one"));
  CHECK(files["one"].size() < kMiB + kMiB / 10);
  std::copy_n(noise.begin(), 2 * kMiB, mixed.begin());
  files.save("two", state_of(mixed, 1), "0");
  CHECK(is_alone("two"));
  files.save("two", state_of(mixed, 1), "0", {.most_of_full = 1});
  CHECK_FALSE(is_alone("two"));
  files.save("plain", state_at(1), "0", {.patches = false, .most_of_full = 1});
  CHECK(is_alone("plain"));

  files["0"].back() ^= std::byte{4};
  files.save("healed", state_at(1), "0");
  const CheckpointFile healed = files.open("healed");
  CHECK(layers_of(healed, 0) == 1);
  CHECK(layers_of(healed, 2) == 0);
  CHECK(weights_of(healed) == weights_at(1));
}

}  // namespace
}  // namespace espalier
