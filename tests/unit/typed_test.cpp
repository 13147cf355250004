#include <array>
#include <atomic>
#include <bit>
#include <complex>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/checkpoint_file.h"
#include "espalier/dtype.h"
#include "espalier/save.h"
#include "espalier/tree/elements.h"

namespace {

// A bfloat16 such as a framework has.
struct Half {
  std::uint16_t bits = 0;
  friend bool operator==(Half, Half) = default;
};

}  // namespace

template <>
struct espalier::DTypeOf<Half> {
  static constexpr DType value = DType::kBF16;
};

namespace espalier {
namespace {

using testing::check_error;
using testing::TemporaryFolder;

static_assert(dtype_of<bool> == DType::kBool && dtype_of<signed char> == DType::kI8 &&
              dtype_of<std::uint8_t> == DType::kU8 && dtype_of<const short> == DType::kI16 &&
              dtype_of<unsigned> == DType::kU32 && dtype_of<long long> == DType::kI64 &&
              dtype_of<unsigned long> == (sizeof(long) == 8 ? DType::kU64 : DType::kU32) &&
              dtype_of<float> == DType::kF32 && dtype_of<const double> == DType::kF64 &&
              dtype_of<std::complex<float>> == DType::kC64 && dtype_of<Half> == DType::kBF16);
static_assert(!Element<char> && !Element<std::string> && !Element<long double> && !Element<float*>);
static_assert(ElementRange<std::vector<float>&> && ElementRange<const std::array<Half, 2>&> &&
              ElementRange<std::span<const int>> && ElementRange<float (&)[3]>);
static_assert(!ElementRange<std::vector<bool>&> && !ElementRange<std::vector<std::string>&> &&
              !ElementRange<float&>);

// Nothing writes into constant memory, or into memory that is gone.
static_assert(std::is_constructible_v<TensorTarget, std::string, std::vector<float>&>);

std::vector<float> count(std::size_t n) {
  std::vector<float> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0.f);
  return numbers;
}

std::string save_example(const TemporaryFolder& folder, const SaveOptions& options = {}) {
  const std::vector<float> weight = count(600'000);
  const std::array<Half, 3> half = {Half{1}, Half{2}, Half{3}};
  const std::array<bool, 2> flags = {true, false};
  const Value state = Value::dict({
      {"model", Value::dict({{"weight", Value::tensor(borrow(weight), {600, 1000})},
                             {"half", Value::tensor(borrow(half), {3})},
                             {"flags", Value::tensor(borrow(flags), {2})},
                             {"owned", Value::tensor(count(4), {2, 2})}})},
      {"step", Value::integer(7)},
  });
  std::string path = (folder.path() / "typed.espalier").string();
  const auto saved = save(path, state, options);
  REQUIRE_MESSAGE(saved, (saved ? "" : saved.error().describe()));
  return path;
}

CheckpointFile open_file(const std::string& path, Access access = Access::kMapped) {
  auto file = CheckpointFile::open(path, {.access = access});
  REQUIRE_MESSAGE(file, (file ? "" : file.error().describe()));
  return *std::move(file);
}

}  // namespace

TEST_CASE("typed: tensors come back with their types") {
  const TemporaryFolder folder;
  for (const bool compress : {false, true}) {
    SaveOptions options;
    if (compress) options.compression_level = 1;
    const std::string path = save_example(folder, options);
    for (const Access access : {Access::kMapped, Access::kRead}) {
      const CheckpointFile file = open_file(path, access);
      const auto weight = file.tensor("model/weight");
      REQUIRE(weight);
      CHECK(weight->shape == std::vector<std::uint64_t>{600, 1000});
      const auto elements = weight->as<float>();
      REQUIRE(elements);
      CHECK(elements->size() == 600'000);
      CHECK(elements->back() == 599'999.f);
      check_error(weight->as<double>(), ErrorCode::kWrongKind, "", "f32, not f64");
      check_error(weight->as<std::int32_t>(), ErrorCode::kWrongKind, "", "f32, not i32");

      std::vector<float> into(600'000);
      std::array<Half, 3> half = {};
      bool flags[2] = {};
      std::vector<float> owned(4);
      const auto loaded = file.load_into({{"model/weight", into},
                                          {"model/half", half},
                                          {"model/flags", std::span(flags)},
                                          {"model/owned", owned}});
      REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().describe()));
      CHECK(into == count(600'000));
      CHECK(half == std::array<Half, 3>{Half{1}, Half{2}, Half{3}});
      CHECK(flags[0]);
      CHECK_FALSE(flags[1]);
      CHECK(owned == count(4));
    }
  }
}

TEST_CASE("typed: elements outlive the view and the file that they come from") {
  const TemporaryFolder folder;
  SaveOptions compressed;
  compressed.compression_level = 1;
  const std::string path = save_example(folder, compressed);
  std::optional<Elements<float>> elements;
  float last = 0;
  {
    const auto file = CheckpointFile::open(path);
    REQUIRE(file);
    auto found = file->tensor("model/weight")->as<float>();
    REQUIRE(found);
    elements = *std::move(found);
    // The range of the loop is a temporary.
    for (const float x : *file->elements<float>("model/weight")) last = x;
  }
  CHECK(last == 599'999.f);
  CHECK(elements->size() == 600'000);
  CHECK(elements->back() == 599'999.f);
  const std::span<const float> span = *elements;
  CHECK(span[5] == 5.f);
}

TEST_CASE("typed: bits are read whatever they mean") {
  const TemporaryFolder folder;
  const CheckpointFile file = open_file(save_example(folder));
  const auto half = file.tensor("model/half");
  REQUIRE(half);
  const auto bits = half->as_bits<std::uint16_t>();
  REQUIRE(bits);
  CHECK(std::vector<std::uint16_t>(bits->begin(), bits->end()) ==
        std::vector<std::uint16_t>{1, 2, 3});
  check_error(half->as_bits<std::uint32_t>(), ErrorCode::kWrongKind, "", "has 16 bits, not 32");
  check_error(file.elements<double>("model/owned"), ErrorCode::kWrongKind, "model/owned",
              "the elements are f32, not f64; load_into() with ReadOptions::convert converts whole "
              "tensors to "
              "f64, and as<float>() of the tensor's view gives them as they are");
  check_error(file.elements<float>("model/half"), ErrorCode::kWrongKind, "model/half",
              "; load_into() with ReadOptions::convert converts whole tensors to f32");
  check_error(file.elements<bool>("model/owned"), ErrorCode::kWrongKind, "model/owned",
              "not bool; as<float>() of the tensor's view gives them as they are");
}

TEST_CASE("typed: a tree owns what it was given to own") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "owned.espalier").string();
  const auto state_of = [] {
    std::vector<float> copied = count(4);
    std::array<float, 2> moved = {1, 2};
    const std::span<const float> span = copied;
    Value state = Value::dict({{"copied", Value::tensor(own(copied), {4})},
                               {"span", Value::tensor(own(span), {2, 2})},
                               {"moved", Value::tensor(std::move(moved), {2})}});
    copied.assign(4, -1.f);
    return state;
  };
  REQUIRE(save(path, state_of()));
  const CheckpointFile file = open_file(path);
  CHECK((*file.elements<float>("copied")).back() == 3.f);
  CHECK((*file.elements<float>("span"))[1] == 1.f);
  CHECK((*file.elements<float>("moved"))[1] == 2.f);
}

TEST_CASE("typed: what does not fit is refused before anything is read") {
  const TemporaryFolder folder;
  const CheckpointFile file = open_file(save_example(folder));
  std::vector<float> untouched = {-1, -1, -1, -1};
  const auto refused = [&](TensorTarget target) {
    return file.load_into({{"model/owned", untouched}, std::move(target)});
  };
  std::vector<float> floats(3);
  std::vector<double> doubles(4);
  check_error(refused({"model/owned", doubles}), ErrorCode::kInvalidArgument, "model/owned",
              "the tensor is f32 and the memory for it f64; give memory of a type with that dtype "
              "(DTypeOf tells those of your own), let ReadOptions::convert convert numbers, or "
              "take the bytes with read_into()");
  check_error(refused({"model/owned", floats}), ErrorCode::kInvalidArgument, "model/owned",
              "the tensor has 4 elements and the memory is for 3");
  check_error(refused({"model/none", floats}), ErrorCode::kNotFound, "model/none", "no such key");
  check_error(refused({"step", floats}), ErrorCode::kWrongKind, "step", "of kind int64");
  check_error(file.tensor("model/wieght"), ErrorCode::kNotFound, "model/wieght",
              "did you mean 'model/weight'?");
  check_error(file.tensor("model"), ErrorCode::kWrongKind, "model", "of kind dict");
  check_error(file.tensor("model//x"), ErrorCode::kInvalidKeyPath, "", "");
  CHECK(untouched == std::vector<float>(4, -1.f));
}

TEST_CASE("typed: every error of a file that was opened by its path names the file") {
  const TemporaryFolder folder;
  const std::string path = save_example(folder);
  const auto is_named = [&](const auto& failed, ErrorCode code, const std::string& name) {
    REQUIRE_FALSE(failed);
    CAPTURE(failed.error().describe());
    CHECK(failed.error().code == code);
    CHECK(failed.error().file == name);
  };
  const std::string none = (folder.path() / "none").string();
  is_named(CheckpointFile::open(none), ErrorCode::kFileNotFound, none);
  is_named(load_contents(none), ErrorCode::kFileNotFound, none);
  is_named(CheckpointFile::open(folder.path()), ErrorCode::kNotARegularFile,
           folder.path().string());
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto written = [&](const std::string& name, const std::string& content) {
    const std::string to = (folder.path() / name).string();
    std::ofstream(to, std::ios::binary) << content;
    return to;
  };
  const std::string other = written("other", std::string(100, 'x'));
  is_named(CheckpointFile::open(other), ErrorCode::kNotACheckpoint, other);
  const std::string cut = written("cut", bytes.substr(0, bytes.size() - 1));
  is_named(CheckpointFile::open(cut), ErrorCode::kTruncated, cut);
  CHECK(CheckpointFile::open(cut).error().describe().find("(code truncated, in file " + cut) !=
        std::string::npos);
  is_named(CheckpointFile::open(path, {.limits = {.nodes = 1}}), ErrorCode::kLimitExceeded, path);

  const auto check = [&](const CheckpointFile& file, const std::string& name) {
    const TensorRef weight = *file.state().at("model/weight").value().tensor();
    std::vector<float> floats(3);
    const Slice backwards[] = {{.step = -1}};
    is_named(file.tensor("model/wieght"), ErrorCode::kNotFound, name);
    is_named(file.tensor("model//"), ErrorCode::kInvalidKeyPath, name);
    is_named(file.tensor("step"), ErrorCode::kWrongKind, name);
    is_named(file.elements<double>("model/owned"), ErrorCode::kWrongKind, name);
    is_named(file.find("["), ErrorCode::kInvalidPattern, name);
    is_named(file.slice(weight, backwards), ErrorCode::kInvalidSlice, name);
    is_named(file.read_into(weight, {}, std::as_writable_bytes(std::span(floats))),
             ErrorCode::kInvalidArgument, name);
    is_named(file.load_into({{"model/owned", floats}}), ErrorCode::kInvalidArgument, name);
    const std::atomic<bool> cancel = true;
    is_named(file.verify({.cancel = &cancel}), ErrorCode::kCancelled, name);
  };
  check(open_file(path), path);
  const auto in_memory = CheckpointFile::open(as_bytes(bytes), nullptr);
  REQUIRE(in_memory);
  check(*in_memory, "");

  // The last bytes are those of a tensor, whose hash no longer fits.
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const std::string damaged = written("damaged", bytes);
  const CheckpointFile file = open_file(damaged);
  is_named(file.load(file.state()), ErrorCode::kChunkCorrupt, damaged);
  const NodeRef root = file.state();
  is_named(file.load_writable(std::span(&root, 1)), ErrorCode::kChunkCorrupt, damaged);
  // Also when a save reads it.
  const Contents contents = file.contents().value();
  is_named(save(folder.path() / "copy", contents.state, {.carry = false}), ErrorCode::kChunkCorrupt,
           damaged);
}

TEST_CASE("typed: memory of another type is filled by conversion, when asked for") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "convert.espalier").string();
  std::vector<std::int32_t> large(2'000'000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::int32_t>(i) - 7;
  // 6 bits each, over several parts.
  std::vector<std::byte> narrow(3 * 2'100'000);
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<std::byte>(i * 37);
  const Value state =
      Value::dict({{"large", Value::tensor(borrow(large), {large.size()})},
                   {"narrow", Value::tensor(Tensor{.dtype = DType::kF6E2M3FN,
                                                   .shape = {8'400'000},
                                                   .data = TensorData::borrowed(narrow)})},
                   {"fraction", Value::tensor(std::vector<float>{1, 0.5f}, {2})}});
  SaveOptions options;
  options.compression_level = 1;
  REQUIRE(save(path, state, options));
  for (const Access access : {Access::kMapped, Access::kRead}) {
    const CheckpointFile file = open_file(path, access);
    std::vector<double> doubles(large.size());
    std::vector<float> floats(8'400'000);
    std::vector<float> same(2);
    std::uint64_t told = 0;
    std::uint64_t total = 0;
    const ReadOptions how = {.convert = true,
                             .progress = [&](std::uint64_t done, std::uint64_t all) {
                               told = done;
                               total = all;
                             }};
    REQUIRE(file.load_into({{"large", doubles}, {"narrow", floats}, {"fraction", same}}, how));
    CHECK(told == total);
    CHECK(std::equal(doubles.begin(), doubles.end(), large.begin()));
    std::vector<double> expected(floats.size());
    decode_elements<double>(DType::kF6E2M3FN, narrow, 0, expected);
    CHECK(std::equal(floats.begin(), floats.end(), expected.begin()));
    CHECK(same == std::vector<float>{1, 0.5f});
    std::vector<int> integers(2);
    check_error(file.load_into({{"fraction", integers}}, how), ErrorCode::kInvalidArgument,
                "fraction", "element 1 is 0.5");
    check_error(file.load_into({{"fraction", doubles}}, how), ErrorCode::kInvalidArgument,
                "fraction", "has 2 elements and the memory is for 2000000");
    check_error(file.load_into({{"fraction", integers}}), ErrorCode::kInvalidArgument, "fraction",
                "ReadOptions::convert");
    // Elsewhere the bits of one type would be taken for another's.
    const TensorRef tensor = *file.state().at("fraction")->tensor();
    const auto out = std::as_writable_bytes(std::span(same));
    const auto code = ErrorCode::kInvalidArgument;
    check_error(file.read_into(tensor, {}, out, how), code, "", "is for load_into()");
    check_error(file.slice(tensor, {}, how), code, "", "is for load_into()");
    check_error(file.tensor("fraction", how), code, "", "is for load_into()");
    check_error(file.load(file.state(), how), code, "", "is for load_into()");
  }
}

TEST_CASE("typed: a read that cannot be names the tensor") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "gap.espalier").string();
  REQUIRE(save(path, Value::dict({{"gap", Value::tensor(Tensor{.shape = {2}})}})));
  const CheckpointFile file = open_file(path);
  std::vector<float> memory(2);
  check_error(file.load_into({{"gap", memory}}), ErrorCode::kWrongKind, "gap", "a placeholder");
  check_error(file.tensor("gap"), ErrorCode::kWrongKind, "gap", "a placeholder");
}

TEST_CASE("typed: bytes that are no bool of C++ are refused") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "bools.espalier").string();
  const auto bytes = std::array{std::byte{1}, std::byte{0}, std::byte{2}};
  const Value state = Value::dict(
      {{"b", Value::tensor(Tensor{
                 .dtype = DType::kBool, .shape = {3}, .data = TensorData::borrowed(bytes)})}});
  REQUIRE(save(path, state));
  const CheckpointFile file = open_file(path);
  const auto view = file.tensor("b");
  REQUIRE(view);
  check_error(view->as<bool>(), ErrorCode::kTensorInvalid, "", "bool number 2");
  std::array<bool, 3> bools = {};
  check_error(file.load_into({{"b", bools}}), ErrorCode::kTensorInvalid, "b", "bool number 2");
  const auto left = std::bit_cast<std::array<unsigned char, 3>>(bools);
  CHECK((left == std::array<unsigned char, 3>{}));
}

TEST_CASE("typed: a view at an odd address is refused, and load_into() copies") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "odd.safetensors").string();
  std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  while (header.size() % 4 != 1) header += ' ';
  std::ofstream out(path, std::ios::binary);
  const std::uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << header;
  const float numbers[2] = {1.5f, -2};
  out.write(reinterpret_cast<const char*>(numbers), 8);
  out.close();
  const CheckpointFile file = open_file(path);
  const auto view = file.tensor("x");
  REQUIRE(view);
  check_error(view->as<float>(), ErrorCode::kInvalidArgument, "", "no multiple of 4");
  float copied[2] = {};
  REQUIRE(file.load_into({{"x", copied}}));
  CHECK(copied[0] == 1.5f);
  CHECK(copied[1] == -2);
}

TEST_CASE("typed: many slices are read at once, also of elements narrower than a byte") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "many.espalier").string();
  Value state = Value::dict();
  for (int i = 0; i < 20; ++i) {
    const std::size_t rows = 1 + static_cast<std::size_t>(i) * 40'000;
    state.add(i, Value::tensor(count(rows * 3), {rows, 3}));
  }
  std::vector<std::byte> nibbles(3 * 700'002 / 2);
  for (std::size_t i = 0; i < nibbles.size(); ++i) nibbles[i] = static_cast<std::byte>(i * 7);
  state.add("narrow", Value::tensor(Tensor{.dtype = DType::kU4,
                                           .shape = {3, 700'002},
                                           .data = TensorData::borrowed(nibbles)}));
  const auto saved = save(path, state);
  REQUIRE_MESSAGE(saved, (saved ? "" : saved.error().describe()));
  // Column 1 of the others, and columns 1, 4, 7, ... of the narrow one, by hand.
  const auto nibble = [&](std::size_t i) {
    return (std::to_integer<unsigned>(nibbles[i / 2]) >> (i % 2 * 4)) & 15u;
  };
  std::vector<std::byte> narrow;
  unsigned low = 0;
  std::size_t packed = 0;
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 1; column < 700'002; column += 3, ++packed) {
      const unsigned value = nibble(row * 700'002 + column);
      if (packed % 2 == 1) narrow.push_back(static_cast<std::byte>(value << 4 | low));
      low = value;
    }
  }
  REQUIRE(narrow.size() == 350'001);
  for (const Access access : {Access::kMapped, Access::kRead}) {
    const CheckpointFile file = open_file(path, access);
    std::vector<Slice> every_third(2);
    every_third[1] = Slice{.start = 1, .stop = std::nullopt, .step = 3};
    std::vector<std::vector<float>> columns;
    std::vector<std::byte> narrow_result(narrow.size());
    std::vector<ReadRequest> requests;
    const auto found = file.find("**");
    REQUIRE(found);
    for (const auto& [key, node] : *found) {
      const auto tensor = node.tensor();
      if (!tensor) continue;
      if (key == "narrow") {
        requests.push_back({*tensor, narrow_result, every_third});
        continue;
      }
      columns.emplace_back(tensor->shape()[0]);
      requests.push_back({*tensor, std::as_writable_bytes(std::span(columns.back())), every_third});
    }
    REQUIRE(requests.size() == 21);
    REQUIRE(file.read_into(requests));
    CHECK((narrow_result == narrow));
    for (const std::vector<float>& column : columns) {
      std::size_t wrong = 0;
      for (std::size_t row = 0; row < column.size(); ++row) {
        wrong += column[row] == static_cast<float>(3 * row + 1) ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
    requests[5].out = requests[5].out.first(7);
    check_error(file.read_into(requests), ErrorCode::kInvalidArgument, "5", "and the buffer 7");
  }
}

TEST_CASE("typed: find() gives paths and nodes") {
  const TemporaryFolder folder;
  const CheckpointFile file = open_file(save_example(folder));
  const auto found = file.find("model/*");
  REQUIRE(found);
  std::string paths;
  for (const auto& [path, node] : *found) paths += path + (node.tensor() ? "! " : " ");
  CHECK(paths == "model/weight! model/half! model/flags! model/owned! ");
  const auto none = file.find("nothing/**");
  REQUIRE(none);
  CHECK(none->empty());
  CHECK(file.find("a//b").error().code == ErrorCode::kInvalidPattern);

  const std::string path = (folder.path() / "long.espalier").string();
  Value shared = Value::dict();
  for (int i = 0; i < 100; ++i) shared.add(i, Value::null());
  REQUIRE(save(path, Value::dict({{std::string(10'000, 'k'), shared}})));
  OpenFileOptions options;
  options.limits.text_bytes = 500'000;
  const auto limited = CheckpointFile::open(path, options);
  REQUIRE(limited);
  check_error(limited->find("**"), ErrorCode::kLimitExceeded, "", "500000 bytes");
}

}  // namespace espalier
