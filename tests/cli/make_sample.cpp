// Saves a small checkpoint that holds one of everything, for the tests of the command line.
//
//   make_sample OUT [small-change]
//
// "large" saves a tensor of several chunks instead, "many:N" a dict of N tensors, "ties:N" N nodes
// of few tensors with long names ("other-ties:N": of other ones), "zeros:N" a sparse file of N
// tensors of 1 GiB, and the other words change one thing about the sample: see main().

#include <algorithm>
#include <array>
#include <cerrno>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>

#include "espalier/format/header.h"
#include "espalier/save.h"
#include "espalier/value.h"
#include "files/os/file_ops.h"

namespace {

using espalier::BigInt;
using espalier::DType;
using espalier::Key;
using espalier::Tensor;
using espalier::TensorData;
using espalier::Value;

template <class T>
TensorData data_of(const std::vector<T>& elements) {
  const auto bytes = std::as_bytes(std::span(elements));
  return TensorData::owned({bytes.begin(), bytes.end()});
}

template <class T>
Tensor tensor_of(DType dtype, std::vector<std::uint64_t> shape, const std::vector<T>& elements) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.data = data_of(elements);
  return tensor;
}

Tensor counting(std::vector<std::uint64_t> shape) {
  std::size_t count = 1;
  for (const std::uint64_t length : shape) count *= static_cast<std::size_t>(length);
  std::vector<float> elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = static_cast<float>(i);
  return tensor_of(DType::kF32, std::move(shape), elements);
}

Tensor bytes_tensor(DType dtype, std::vector<std::uint64_t> shape, std::size_t bytes) {
  std::vector<std::uint8_t> elements(bytes);
  for (std::size_t i = 0; i < bytes; ++i) elements[i] = static_cast<std::uint8_t>(i * 37 + 1);
  return tensor_of(dtype, std::move(shape), elements);
}

Value every_dtype() {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Value dict = Value::dict();
  const auto add = [&](const char* name, Tensor tensor) {
    dict.add(name, Value::tensor(std::move(tensor)));
  };
  add("bool", tensor_of<std::uint8_t>(DType::kBool, {3}, {1, 0, 1}));
  add("i8", tensor_of<std::int8_t>(DType::kI8, {3}, {-128, 0, 127}));
  add("u8", tensor_of<std::uint8_t>(DType::kU8, {3}, {0, 1, 255}));
  add("i64", tensor_of<std::int64_t>(DType::kI64, {2},
                                     {std::numeric_limits<std::int64_t>::min(),
                                      std::numeric_limits<std::int64_t>::max()}));
  add("u64", tensor_of<std::uint64_t>(DType::kU64, {2}, {0, ~std::uint64_t{0}}));
  add("f16", tensor_of<std::uint16_t>(DType::kF16, {3}, {0x3C00, 0xC000, 0x7C00}));
  add("bf16", tensor_of<std::uint16_t>(DType::kBF16, {2}, {0x3F80, 0x4049}));
  add("f32", tensor_of<float>(DType::kF32, {2, 3}, {0.1f, -0.0f, nan, inf, -inf, 1e20f}));
  add("f64", tensor_of<double>(DType::kF64, {2}, {0.1, 1e300}));
  add("c64", tensor_of<std::complex<float>>(DType::kC64, {2}, {{3, 4}, {0, -1}}));
  add("f8", bytes_tensor(DType::kF8E4M3FN, {4}, 4));
  add("f4", bytes_tensor(DType::kF4E2M1FN, {4}, 2));
  add("f6", bytes_tensor(DType::kF6E2M3FN, {4}, 3));
  add("i4", bytes_tensor(DType::kI4, {4}, 2));
  add("u2", bytes_tensor(DType::kU2, {8}, 2));
  Tensor opaque = bytes_tensor(DType::kOpaque, {64}, 36);
  opaque.block_name = "q4_0";
  opaque.block_elements = 32;
  opaque.block_bytes = 18;
  add("opaque", std::move(opaque));
  add("empty", tensor_of<float>(DType::kF32, {0, 3}, {}));
  add("scalar", tensor_of<float>(DType::kF32, {}, {2.5f}));
  return dict;
}

Value sample(std::string_view change) {
  Tensor weight = counting({4, 3});
  weight.axis_names = {"rows", ""};
  if (change == "element") {
    std::vector<float> elements(12);
    for (std::size_t i = 0; i < 12; ++i) elements[i] = static_cast<float>(i);
    elements[5] += 0.5f;
    weight.data = data_of(elements);
  }
  const auto shared = std::make_shared<const Tensor>(std::move(weight));
  const auto tied = change == "untied" ? std::make_shared<const Tensor>(*shared) : shared;
  Tensor missing;
  missing.dtype = DType::kBF16;
  missing.shape = {1000, 1000};

  std::vector<Value::Item> model = {{"embed", Value::tensor(shared)},
                                    {"head", Value::tensor(tied)}};
  if (change == "order") std::swap(model[0], model[1]);
  Value state = Value::dict();
  state.add("model", Value::dict(std::move(model)).labelled("collections.OrderedDict"));
  state.add("layers",
            Value::list(
                {Value::dict({{"w", Value::tensor(counting({2, 2}))}, {"n", Value::integer(1)}}),
                 Value::dict({{"w", Value::tensor(counting({2, 2}))}, {"n", Value::integer(2)}})}));
  state.add("optimizer",
            Value::dict({{0, Value::dict({{"step", Value::integer(change == "value" ? 101 : 100)},
                                          {"exp_avg", Value::tensor(counting({30, 40}))}})},
                         {"0", Value::string("a string key")}}));
  state.add("betas", Value::tuple({Value::real(0.9), Value::real(0.999)}));
  state.add("seen", Value::set({Value::integer(1), Value::string("two")}));
  state.add("args", Value::record({{"lr", Value::real(0.001)}, {"nesterov", Value::boolean(true)}})
                        .labelled("optax.ScaleByAdamState"));
  state.add("nothing", Value::null());
  state.add("big", Value::integer(*BigInt::from_decimal("-123456789012345678901234567890")));
  state.add("large_int", Value::integer(std::int64_t{9007199254740993}));
  state.add("nan", Value::real(std::numeric_limits<double>::quiet_NaN()));
  state.add("complex", Value::complex({1.0, -2.0}));
  state.add("raw", Value::bytes({std::byte{0x00}, std::byte{0xFF}}));
  state.add("a/b~c",
            Value::string("line\nbreak \x1b[31mred\x1b[0m \u202Edrow \u200B\u0085\u2028 \"q\" \\"));
  state.add("evil\x1b]0;title\x07", Value::null());
  state.add("missing", Value::tensor(std::move(missing)));
  state.add("types", every_dtype());
  if (change == "extra") state.add("extra", Value::integer(1));
  return state;
}

Value large(bool changed) {
  constexpr std::uint64_t kRows = 1000;
  Tensor tensor = counting({kRows, 1000});
  Tensor six = bytes_tensor(DType::kF6E3M2FN, {4 * 1024 * 1024}, 3 * 1024 * 1024);
  if (changed) {
    tensor.data = TensorData::produced(
        [data = tensor.data](std::uint64_t offset, espalier::MutableByteSpan out) {
          auto done = data.read(offset, out);
          // The last chunk's last element gets its sign changed.
          if (offset + out.size() == kRows * 4000) out.back() ^= std::byte{0x80};
          return done;
        });
  }
  return Value::dict(
      {{"x", Value::tensor(std::move(tensor))}, {"six", Value::tensor(std::move(six))}});
}

Value many(unsigned long count) {
  Value layers = Value::dict();
  const auto tensor = [] { return Value::tensor(counting({1})); };
  for (unsigned long i = 0; i < count; ++i) {
    layers.add("layer_" + std::to_string(i), Value::dict({{"weight", tensor()}}));
  }
  return Value::dict({{"model", std::move(layers)}});
}

// Finite numbers whose sums and squares overflow; `negated` negates the first of each.
Value extremes(bool negated) {
  using Complex = std::complex<double>;
  constexpr double kMax = std::numeric_limits<double>::max();
  constexpr double kMin = std::numeric_limits<double>::denorm_min();
  constexpr std::size_t kChunk = 1024 * 1024 / sizeof(double);
  const auto halves = [](double first, double second) {
    std::vector<double> elements(2 * kChunk, first);
    std::fill(elements.begin() + kChunk, elements.end(), second);
    return elements;
  };
  Value dict = Value::dict();
  const auto add = [&](const char* name, std::vector<double> elements) {
    if (negated) elements.front() = -elements.front();
    const std::uint64_t size = elements.size();
    dict.add(name, Value::tensor(tensor_of(DType::kF64, {size}, elements)));
  };
  add("max", {kMax, kMax, kMax});
  add("both", {kMax, -kMax});
  add("apart", halves(kMax, -kMax));
  add("half", halves(kMax, 0));
  add("tiny", {1e-300, 3e-300});
  add("tiny_after_zeros", halves(0, 2 * kMin));
  add("tiny_beside_large", halves(1e-300, 3e300));
  add("ordinary_beside_large", halves(1, kMax));
  const double sign = negated ? -1 : 1;
  dict.add("complex", Value::tensor(tensor_of<Complex>(DType::kC128, {2},
                                                       {{sign * 3e307, 4e307}, {6e307, 8e307}})));
  dict.add("far", Value::tensor(tensor_of<Complex>(DType::kC128, {1}, {{sign * kMax, 0}})));
  return dict;
}

// Keys that begin other keys, with characters before and after the slash between them.
Value prefixes() {
  const auto null = [] { return Value::null(); };
  return Value::dict({{"a0", null()},
                      {"a", Value::dict({{"b", null()}, {2, null()}, {10, null()}, {-1, null()}})},
                      {"0", null()},
                      {"a-b", Value::dict({{"~", null()}})}});
}

// A small file, all of whose texts are long when they are repeated for each node.
Value ties(unsigned long count, bool other) {
  Tensor named = counting({1, 1});
  named.axis_names = {std::string(8000, other ? 'R' : 'r'), std::string(8000, 'c')};
  Tensor opaque = bytes_tensor(DType::kOpaque, {2}, 2);
  opaque.block_name = std::string(8000, other ? 'B' : 'b');
  opaque.block_elements = opaque.block_bytes = 1;
  const std::array<Value, 2> tied = {Value::tensor(std::move(named)),
                                     Value::tensor(std::move(opaque))};
  Value list = Value::list();
  for (unsigned long i = 0; i < count; ++i) list.add(tied[i % 2]);
  return Value::dict({{std::string(16000, 'k'), std::move(list)}});
}

// Makes a file require a feature that no reader knows.
bool require_unknown_feature(const char* path) {
  std::array<std::byte, espalier::kHeaderBytes> bytes{};
  std::FILE* file = std::fopen(path, "r+b");
  if (file == nullptr || std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size())
    return false;
  auto header = espalier::decode_header(bytes, {}, 0);
  if (!header) return false;
  header->features |= std::uint64_t{1} << 40;
  bytes = espalier::encode_header(*header);
  std::rewind(file);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written;
}

// Tensors of 1 GiB of zeros, which take no memory. They are equal, but not tied.
Value zeros(unsigned long count) {
  constexpr std::uint64_t kSide = 16384;
  constexpr std::size_t kBytes = kSide * kSide * sizeof(float);
  void* const pages = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) std::abort();
  Value state = Value::dict();
  for (unsigned long i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.dtype = DType::kF32;
    tensor.shape = {kSide, kSide};
    tensor.data = TensorData::borrowed({static_cast<const std::byte*>(pages), kBytes});
    state.add("zeros_" + std::to_string(i), Value::tensor(std::move(tensor)));
  }
  return state;
}

// Leaves holes in the file where zeros would be written.
class SparseOps : public espalier::FileOps {
 public:
  int fallocate(int, off_t) override {
    errno = ENOSYS;
    return -1;
  }
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    const auto* const first = static_cast<const char*>(bytes);
    const bool is_zero = size > 0 && *first == 0 && std::memcmp(first, first + 1, size - 1) == 0;
    return is_zero ? static_cast<ssize_t>(size) : FileOps::pwrite(fd, bytes, size, offset);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view change = argc > 2 ? argv[2] : "";
  espalier::SaveOptions options;
  options.sync = false;
  options.metadata = Value::dict(
      {{"run", Value::string(change == "metadata" ? "two" : "one")}, {"epoch", Value::integer(3)}});
  SparseOps sparse;
  Value state;
  if (change.starts_with("zeros:")) {
    state = zeros(std::strtoul(change.substr(6).data(), nullptr, 10));
    options.ops = &sparse;
  } else if (change.starts_with("large")) {
    state = large(change == "large-changed");
  } else if (change.starts_with("many:")) {
    state = many(std::strtoul(change.substr(5).data(), nullptr, 10));
  } else if (change.starts_with("extremes")) {
    state = extremes(change == "extremes-negated");
  } else if (change == "prefixes") {
    state = prefixes();
  } else if (change.starts_with("ties:")) {
    state = ties(std::strtoul(change.substr(5).data(), nullptr, 10), false);
  } else if (change.starts_with("other-ties:")) {
    state = ties(std::strtoul(change.substr(11).data(), nullptr, 10), true);
  } else {
    state = sample(change);
  }
  const auto saved = espalier::save(argv[1], state, options);
  if (!saved) std::fprintf(stderr, "make_sample: %s\n", saved.error().describe().c_str());
  if (saved && change == "feature" && !require_unknown_feature(argv[1])) return 1;
  return saved ? 0 : 1;
}
