// A file of a whole state whose tensors lie in parts in other files.
#include "files/delta/join_parts.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/dtype.h"
#include "espalier/save.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::check_error;
using testing::Random;
using testing::TemporaryFolder;

using Numbers = std::vector<std::uint64_t>;

struct Cut {
  Numbers offset;
  Numbers size;
};

Value tensor_of(DType dtype, Numbers shape, std::vector<std::byte> bytes) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.data = TensorData::owned(std::move(bytes));
  return Value::tensor(std::move(tensor));
}

Value placeholder_of(DType dtype, Numbers shape) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return Value::tensor(std::move(tensor));
}

// Element by element, of three axes, or a run.
std::vector<std::byte> part_of(const std::vector<std::byte>& whole, const Numbers& shape,
                               const Cut& cut, std::size_t width) {
  if (cut.size.size() == 1) {
    const auto* const begin = whole.data() + cut.offset[0] * width;
    return {begin, begin + cut.size[0] * width};
  }
  std::vector<std::byte> part;
  for (std::uint64_t i = 0; i < cut.size[0]; ++i) {
    for (std::uint64_t j = 0; j < cut.size[1]; ++j) {
      for (std::uint64_t k = 0; k < cut.size[2]; ++k) {
        const std::uint64_t at =
            ((cut.offset[0] + i) * shape[1] + cut.offset[1] + j) * shape[2] + cut.offset[2] + k;
        const auto* const element = whole.data() + at * width;
        part.insert(part.end(), element, element + width);
      }
    }
  }
  return part;
}

// A grid of boxes, by places to cut along each axis.
std::vector<Cut> grid(const Numbers& shape, const std::vector<Numbers>& places) {
  std::vector<Cut> cuts = {{{}, {}}};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    Numbers ends = places[axis];
    ends.push_back(shape[axis]);
    std::vector<Cut> next;
    for (const Cut& cut : cuts) {
      std::uint64_t begin = 0;
      for (const std::uint64_t end : ends) {
        Cut longer = cut;
        longer.offset.push_back(begin);
        longer.size.push_back(end - begin);
        next.push_back(std::move(longer));
        begin = end;
      }
    }
    cuts = std::move(next);
  }
  return cuts;
}

std::vector<std::byte> noise(std::size_t size, Random& random) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

// Writes `parts` to as many files as `count`, joins them, and returns the size of the new file.
std::uint64_t check_joined(const TemporaryFolder& folder, const Numbers& shape,
                           const std::vector<Cut>& cuts, std::size_t count, int compression,
                           Random& random) {
  const auto whole = noise(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * 2), random);
  std::vector<CheckpointFile> files;
  std::vector<SaveBase> bases;
  for (std::size_t n = 0; n < count; ++n) {
    Value state = Value::dict();
    for (std::size_t i = n; i < cuts.size(); i += count) {
      state.add(Key(std::to_string(i)),
                tensor_of(DType::kBF16, cuts[i].size, part_of(whole, shape, cuts[i], 2)));
    }
    const std::string name = "part_" + std::to_string(n) + ".espalier";
    REQUIRE(save(folder.path() / name, state, {.compression_level = compression}));
    auto file = CheckpointFile::open(folder.path() / name);
    REQUIRE(file);
    files.push_back(std::move(*file));
    bases.push_back({nullptr, name});
  }
  for (std::size_t n = 0; n < count; ++n) bases[n].file = &files[n];
  JoinedTensor joined{{KeyPath{"a", 0}}, {}};
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const auto node =
        files[i % count].state().find(KeyView::of(std::string_view(std::to_string(i))));
    joined.parts.push_back({i % count, *node->tensor(), cuts[i].offset});
  }
  const auto path = folder.path() / "whole.espalier";
  Value state = Value::dict();
  state.add(Key("a"), Value::list({placeholder_of(DType::kBF16, shape)}));
  state.add(Key("step"), Value(7));
  const auto ok = save_joined(path, state, bases, std::span(&joined, 1),
                              {.threads = 3, .compression_level = compression});
  REQUIRE_MESSAGE(ok, ok.error().describe());
  const auto file = CheckpointFile::open(path);
  REQUIRE(file);
  const auto report = file->verify();
  REQUIRE(report);
  CHECK(report->errors == std::vector<Error>{});
  const auto view = file->tensor("a/0");
  REQUIRE(view);
  const auto bytes = view->bytes();
  CHECK(std::equal(bytes.begin(), bytes.end(), whole.begin(), whole.end()));
  CHECK(file->state().find(KeyPath{"step"})->as_int64() == 7);
  return fs::file_size(path);
}

TEST_CASE("tensors in boxes of any cut are joined") {
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    const TemporaryFolder folder;
    // Some of more than a chunk.
    const Numbers shape = {1 + random.below(6), 1 + random.below(round % 4 == 0 ? 700 : 6),
                           1 + random.below(round % 4 == 0 ? 700 : 6)};
    std::vector<Numbers> places(3);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      for (std::uint64_t i = 1; i < shape[axis]; ++i) {
        if (random.below(shape[axis]) < 2) places[axis].push_back(i);
      }
    }
    CAPTURE(round);
    check_joined(folder, shape, grid(shape, places), 1 + random.below(3),
                 static_cast<int>(random.below(2)), random);
  }
}

TEST_CASE("parts that are chunks of the whole are referred to, and others are copied") {
  Random random(2);
  const TemporaryFolder folder;
  const Numbers shape = {8, 512, 256};  // a quarter of a MiB for each row
  for (const int compression : {0, 1}) {
    CHECK(check_joined(folder, shape, grid(shape, {{}, {}, {}}), 1, compression, random) < 10'000);
    CHECK(check_joined(folder, shape, grid(shape, {{4}, {}, {}}), 2, compression, random) < 10'000);
    // A chunk that both parts have.
    const auto shared =
        check_joined(folder, shape, grid(shape, {{5}, {}, {}}), 2, compression, random);
    CHECK(shared > 1 << 20);
    CHECK(shared < (1 << 20) + 10'000);
    CHECK(check_joined(folder, shape, grid(shape, {{}, {4}, {}}), 2, compression, random) >
          2 << 20);
  }
}

TEST_CASE("runs of elements are joined, and copied only where they have no whole chunks") {
  Random random(3);
  const Numbers shape = {5, 600, 400};  // 2.29 MiB
  const std::uint64_t count = 5 * 600 * 400;
  const std::uint64_t chunk = kChunkBytes / 2;
  const TemporaryFolder folder;
  for (const int compression : {0, 1}) {
    const auto size = [&](const Numbers& places) {
      return check_joined(folder, shape, grid({count}, {places}), 2, compression, random);
    };
    CHECK(size({chunk, 2 * chunk}) < 10'000);
    CHECK(size({}) < 10'000);
    const auto one = size({chunk, chunk + 7, 2 * chunk});
    CHECK(one > 1 << 20);
    CHECK(one < (1 << 20) + 10'000);
    CHECK(size({7, chunk - 1, count - 3}) > 2 * count);
  }
}

TEST_CASE("pairs of elements of four bits are joined, and what does not fit is refused") {
  const TemporaryFolder folder;
  const auto bytes = [](std::initializer_list<int> values) {
    std::vector<std::byte> made;
    for (const int value : values) made.push_back(static_cast<std::byte>(value));
    return made;
  };
  Value state = Value::dict();
  state.add(Key("left"), tensor_of(DType::kF4E2M1FN, {2, 4}, bytes({1, 2, 5, 6})));
  state.add(Key("right"), tensor_of(DType::kF4E2M1FN, {2, 2}, bytes({3, 7})));
  state.add(Key("other"), tensor_of(DType::kU8, {2, 2}, bytes({1, 2, 3, 4})));
  REQUIRE(save(folder.path() / "part.espalier", state));
  const auto part = CheckpointFile::open(folder.path() / "part.espalier");
  REQUIRE(part);
  const SaveBase base{&*part, "part.espalier"};
  const auto part_at = [&](const char* name, Numbers offset) {
    return JoinedPart{0, *part->state().find(KeyPath{name})->tensor(), std::move(offset)};
  };
  const auto join = [&](std::vector<JoinedPart> parts, Numbers shape, KeyPath path) {
    Value whole = Value::dict();
    whole.add(Key("w"), placeholder_of(DType::kF4E2M1FN, std::move(shape)));
    whole.add(Key("n"), Value(1));
    const JoinedTensor joined{{std::move(path)}, std::move(parts)};
    return save_joined(folder.path() / "whole.espalier", whole, std::span(&base, 1),
                       std::span(&joined, 1), {});
  };
  REQUIRE(join({part_at("right", {0, 4}), part_at("left", {0, 0})}, {2, 6}, {"w"}));
  const auto whole = CheckpointFile::open(folder.path() / "whole.espalier");
  REQUIRE(whole);
  const auto view = whole->tensor("w");
  REQUIRE(view);
  const auto made = view->bytes();
  CHECK(std::vector<std::byte>(made.begin(), made.end()) == bytes({1, 2, 3, 5, 6, 7}));

  const auto refused = [](const Result<void>& result, const char* message) {
    check_error(result, ErrorCode::kInvalidArgument, "w", message);
  };
  refused(join({part_at("left", {0, 0})}, {2, 6}, {"w"}), "do not make up");
  refused(join({}, {2, 6}, {"w"}), "do not make up");
  refused(join({part_at("left", {0, 0}), part_at("left", {0, 2})}, {2, 6}, {"w"}),
          "do not make up");
  refused(join({part_at("left", {0, 4}), part_at("right", {0, 0})}, {2, 5}, {"w"}), "a byte");
  refused(join({part_at("left", {0, 1}), part_at("right", {0, 0})}, {2, 6}, {"w"}), "a byte");
  refused(join({part_at("other", {0, 0})}, {2, 2}, {"w"}), "another dtype");
  refused(join({part_at("left", {0})}, {8}, {"w"}), "other axes");
  const auto elsewhere = join({part_at("left", {0, 0})}, {2, 4}, {"n"});
  REQUIRE(!elsewhere);
  CHECK(elsewhere.error().message == "the state has no placeholder there");
  CHECK(!join({part_at("left", {0, 0})}, {2, 4}, {"none"}));
  // Without elements, no part is needed.
  CHECK(join({}, {0, 6}, {"w"}));
}

TEST_CASE("a joined tensor at several places is one tensor") {
  const TemporaryFolder folder;
  Random random(4);
  const std::uint64_t half = 3 * kChunkBytes / 2;
  const auto bytes = noise(2 * half, random);
  Value state = Value::dict();
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto* const begin = bytes.data() + i * half;
    state.add(Key(std::to_string(i)), tensor_of(DType::kU8, {half}, {begin, begin + half}));
  }
  REQUIRE(save(folder.path() / "part.espalier", state));
  const auto part = CheckpointFile::open(folder.path() / "part.espalier");
  REQUIRE(part);
  const SaveBase base{&*part, "part.espalier"};
  const auto path = folder.path() / "whole.espalier";
  const auto join = [&](const Value& second) {
    Value whole = Value::dict();
    whole.add(Key("a"), Value::list({placeholder_of(DType::kU8, {2 * half})}));
    whole.add(Key("b"), second);
    JoinedTensor joined{{KeyPath{"a", 0}, KeyPath{"b"}}, {}};
    for (std::uint64_t i = 0; i < 2; ++i) {
      const auto node = part->state().find(KeyView::of(std::string_view(std::to_string(i))));
      joined.parts.push_back({0, *node->tensor(), {i * half}});
    }
    return save_joined(path, whole, std::span(&base, 1), std::span(&joined, 1), {});
  };
  REQUIRE(join(placeholder_of(DType::kU8, {2 * half})));
  const auto file = CheckpointFile::open(path);
  REQUIRE(file);
  CHECK(file->checkpoint().tensor_count() == 1);
  CHECK(file->verify()->errors == std::vector<Error>{});
  for (const char* const place : {"a/0", "b"}) {
    const auto view = file->tensor(place);
    REQUIRE(view);
    const auto found = view->bytes();
    CHECK(std::equal(found.begin(), found.end(), bytes.begin(), bytes.end()));
  }
  // From the chunk that both parts have on, all is copied: once.
  CHECK(fs::file_size(path) < 2 * kChunkBytes + 10'000);
  check_error(join(placeholder_of(DType::kU8, {half})), ErrorCode::kInvalidArgument, "b",
              "another dtype or shape");
  check_error(join(Value(1)), ErrorCode::kInvalidArgument, "b", "no placeholder");
}

}  // namespace
}  // namespace espalier
