// Makes the golden files: small checkpoints whose every byte is checked in.
//
//   make_golden write FOLDER      writes them
//   make_golden compare FOLDER    compares them with what the writer makes today, byte for byte
//
// A difference means that the format has changed, or that it depends on something that it must not.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/memory_file.h"
#include "support/temporary_folder.h"
#include <zstd.h>

#include "espalier/codec/compression_level.h"
#include "espalier/dtype.h"

namespace espalier::testing {
namespace {

Value tensor(DType dtype, std::vector<std::uint64_t> shape, std::vector<std::byte> bytes,
             std::vector<std::string> axis_names = {}) {
  Tensor made;
  made.dtype = dtype;
  made.shape = std::move(shape);
  made.data = TensorData::owned(std::move(bytes));
  made.axis_names = std::move(axis_names);
  return Value::tensor(std::move(made));
}

// Bytes 0, 1, 2 ...: any order of reading shows.
std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

BigInt big(std::string_view decimal) { return BigInt::from_decimal(decimal).value(); }

Value every_kind() {
  Tensor hole;
  hole.dtype = DType::kBF16;
  hole.shape = {1024, 4096};
  return Value::dict({
      {"null", Value::null()},
      {"true", Value::boolean(true)},
      {"false", Value::boolean(false)},
      {"int64",
       Value::list({Value::integer(0), Value::integer(-1),
                    Value::integer(INT64_C(9223372036854775807)), Value::integer(INT64_MIN)})},
      {"bigint", Value::list({Value::integer(big("9223372036854775808")),
                              Value::integer(big("-9223372036854775809")),
                              Value::integer(big("340282366920938463463374607431768211455"))})},
      {"float64", Value::list({Value::real(0.1), Value::real(-0.0), Value::real(1e300 * 1e300),
                               Value::real(5e-324)})},
      {"complex128", Value::complex({1.5, -2.5})},
      {"string", Value::list({Value::string(""), Value::string("Spalier"),
                              Value::string("\xF0\x9F\x8C\xB3 \xC3\xA9")})},
      {"bytes", Value::list({Value::bytes({}), Value::bytes(counting(5))})},
      {"dict", Value::dict({{"b", Value::integer(1)}, {"a", Value::integer(2)}})
                   .labelled("collections.OrderedDict")},
      {"list", Value::list()},
      {"tuple", Value::tuple({Value::integer(2), Value::integer(3)}).labelled("torch.Size")},
      {"set", Value::set({Value::string("x"), Value::integer(1), Value::null()})},
      {"record", Value::record({{"count", Value::integer(7)}, {"mu", Value::dict()}})
                     .labelled("optax.ScaleByAdamState")},
      {"tensor", tensor(DType::kF32, {2, 3}, counting(24), {"rows", ""})},
      {"placeholder", Value::tensor(std::move(hole))},
      {"empty label", Value::null().labelled("")},
  });
}

Value every_dtype() {
  Value dict = Value::dict();
  for (std::uint8_t number = 1; number <= kLastDType; ++number) {
    const auto dtype = static_cast<DType>(number);
    const std::string name(dtype_name(dtype));
    if (dtype == DType::kOpaque) {
      Tensor opaque;
      opaque.dtype = dtype;
      opaque.shape = {2, 64};
      opaque.block_name = "q4_0";
      opaque.block_elements = 32;
      opaque.block_bytes = 18;
      opaque.data = TensorData::owned(counting(72));
      dict.add(name, Value::tensor(std::move(opaque)));
      continue;
    }
    const std::vector<std::uint64_t> shape = {2, 4};
    auto bytes = counting(static_cast<std::size_t>(tensor_bytes(dtype, shape).value()));
    if (dtype == DType::kBool) {
      for (std::byte& byte : bytes) byte &= std::byte{1};
    }
    dict.add(name, tensor(dtype, shape, std::move(bytes)));
  }
  dict.add("0-d", tensor(DType::kF64, {}, counting(8)));
  dict.add("empty", tensor(DType::kF64, {3, 0}, {}));
  return dict;
}

Value tied() {
  const Value shared = tensor(DType::kF16, {2, 2}, counting(8));
  return Value::dict({
      {"embedding", shared},
      {"same bytes, not tied", tensor(DType::kF16, {2, 2}, counting(8))},
      {"head", Value::dict({{"weight", shared}})},
      {"all", Value::list({shared, shared})},
  });
}

Value chunks() {
  std::vector<std::byte> large(2 * kChunkBytes + 100);
  // Runs of equal bytes, so that the file packs well.
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i >> 14);
  const std::uint64_t size = large.size();
  return Value::dict({
      {"before", tensor(DType::kU8, {3}, counting(3))},
      {"large", tensor(DType::kU8, {size}, std::move(large))},
      {"after", tensor(DType::kU8, {65}, counting(65))},
      {"last", tensor(DType::kU8, {1}, counting(1))},
  });
}

Value keys() {
  Value odd = Value::dict();
  std::int64_t position = 0;
  for (const char* text : {"z",
                           "",
                           "0",
                           "-1",
                           "-0",
                           "007",
                           "~",
                           "/",
                           "~2",
                           "a/b",
                           "m~n",
                           " ",
                           "\xC3\xA9",
                           "\xE6\x97\xA5\xE6\x9C\xAC",
                           "\xF0\x9F\x8C\xB3",
                           "\xEF\xBF\xBF",
                           "\x01",
                           "*",
                           "9223372036854775807",
                           "9223372036854775808"}) {
    odd.add(text, Value::integer(position++));
  }
  for (const std::int64_t number :
       {INT64_C(7), INT64_C(0), INT64_C(-1), INT64_C(256), INT64_MAX, INT64_MIN, INT64_C(-256)}) {
    odd.add(number, Value::integer(position++));
  }
  Value sorted = Value::dict();
  for (std::int64_t i = 0; i < 12; ++i) sorted.add(i * i, Value::null());
  Value small = Value::dict();
  for (std::int64_t i = 8; i > 0; --i) small.add(i, Value::null());
  return Value::dict({{"odd", std::move(odd)}, {"sorted", std::move(sorted)}, {"small", small}});
}

Value metadata() {
  return Value::dict({{"framework", Value::string("torch 2.9")},
                      {"step", Value::integer(1000)},
                      {"history", Value::list({Value::real(2.5), Value::real(1.25)})},
                      {0, Value::null().labelled("note")}});
}

// Numbers whose exponents are alike and whose mantissas are not, in arithmetic that is the same
// everywhere: every codec has something to do, and every kind of plane occurs.
Value compressible() {
  constexpr std::uint64_t kElements = 600;
  const auto filled = [](DType dtype, const auto& number) {
    const std::size_t width = dtype_bits(dtype) / 8;
    std::vector<std::byte> bytes(kElements * width);
    std::uint64_t bits = 0x9E3779B97F4A7C15u;
    for (std::size_t i = 0; i < kElements; ++i) {
      bits = bits * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
      const std::uint64_t value = number(i, bits >> 16);
      std::memcpy(bytes.data() + i * width, &value, std::min<std::size_t>(width, 8));
    }
    return tensor(dtype, {kElements}, std::move(bytes));
  };
  const auto f32 = [](std::size_t i, std::uint64_t bits) {
    return (bits & 0x807FFFFFu) | (120 + i * i % 5) << 23;
  };
  return Value::dict({
      {"bf16",
       filled(DType::kBF16, [&](std::size_t i, std::uint64_t bits) { return f32(i, bits) >> 16; })},
      {"f16", filled(DType::kF16,
                     [](std::size_t i, std::uint64_t bits) {
                       return (bits & 0x83FFu) | (10 + i % 3) << 10;
                     })},
      {"f32", filled(DType::kF32, f32)},
      {"f32 of bf16",
       filled(DType::kF32,
              [&](std::size_t i, std::uint64_t bits) { return f32(i, bits) & 0xFFFF0000u; })},
      {"f64", filled(DType::kF64,
                     [](std::size_t i, std::uint64_t bits) {
                       return (bits & 0x800FFFFFFFFFFFFFu) | std::uint64_t{1020 + i % 4} << 52;
                     })},
      {"c64", filled(DType::kC64,
                     [&](std::size_t i, std::uint64_t bits) {
                       return f32(i, bits) | f32(i + 1, bits >> 9) << 32;
                     })},
      {"f8",
       filled(DType::kF8E4M3FN,
              [](std::size_t i, std::uint64_t bits) { return (bits & 0x87u) | (i % 2 + 4) << 3; })},
      {"i64", filled(DType::kI64, [](std::size_t, std::uint64_t bits) { return bits % 1000; })},
      {"i16", filled(DType::kI16, [](std::size_t i, std::uint64_t) { return i * 3; })},
      {"text", filled(DType::kU8,
                      [](std::size_t i, std::uint64_t) {
                        return static_cast<std::uint64_t>("a vine on a wall; "[i % 18]);
                      })},
      {"zeros", filled(DType::kF32, [](std::size_t, std::uint64_t) { return std::uint64_t{0}; })},
      {"noise", filled(DType::kU32, [](std::size_t, std::uint64_t bits) { return bits; })},
      {"one", tensor(DType::kF32, {}, counting(4))},
  });
}

struct Golden {
  const char* name;
  Value state;
  Value metadata = Value::dict();
  int compression_level = kNoCompression;
};

// Whether zstd may have made other frames of the same bytes than when the file was checked in.
bool has_other_frames(const Golden& golden) {
  constexpr unsigned kVersion = 10504;
  return golden.compression_level != kNoCompression && ZSTD_versionNumber() != kVersion;
}

// Whether two files hold the same state, however their chunks are stored.
bool same_state(ByteSpan a, ByteSpan b) {
  const auto first = open_file(a);
  const auto second = open_file(b);
  return first && second && first->catalog().tree_digest() == second->catalog().tree_digest() &&
         load_tree(a, first->state()) && load_tree(b, second->state());
}

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  all.push_back({"empty", Value::dict()});
  all.push_back({"every_kind", every_kind()});
  all.push_back({"every_dtype", every_dtype()});
  all.push_back({"tied", tied()});
  all.push_back({"chunks", chunks()});
  all.push_back({"keys", keys()});
  all.push_back(
      {"metadata", Value::dict({{"w", tensor(DType::kF32, {2}, counting(8))}}), metadata()});
  all.push_back({"compressed", compressible(), Value::dict(), kFastCompression});
  all.push_back({"compressed_9", compressible(), Value::dict(), kMaxCompression});
  return all;
}

int run(int argc, char** argv) {
  const std::string_view mode = argc == 3 ? argv[1] : "";
  if (mode != "write" && mode != "compare") {
    std::fprintf(stderr, "usage: make_golden write|compare FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[2];
  int bad = 0;
  int good = 0;
  for (const Golden& golden : goldens()) {
    const auto path = folder / (std::string(golden.name) + ".espalier");
    const auto made =
        write_file(golden.state, golden.metadata, {.compression_level = golden.compression_level});
    if (!made) {
      std::printf("%s: %s\n", golden.name, made.error().describe().c_str());
      ++bad;
      continue;
    }
    if (mode == "write") {
      const bool written = write_whole(path, *made);
      written ? ++good : ++bad;
      if (!written) std::printf("%s: cannot be written\n", path.c_str());
      continue;
    }
    const auto expected = read_whole(path);
    if (expected == *made || (has_other_frames(golden) && same_state(expected, *made))) {
      ++good;
      continue;
    }
    std::size_t at = 0;
    while (at < expected.size() && at < made->size() && expected[at] == (*made)[at]) ++at;
    std::printf("%s: %zu bytes today, %zu checked in, different from byte %zu on\n", golden.name,
                made->size(), expected.size(), at);
    ++bad;
  }
  std::printf("%s: %d files %s, %d failed\n", bad == 0 ? "passed" : "FAILED", good,
              mode == "write" ? "written" : "are the same", bad);
  return bad == 0 && good > 0 ? 0 : 1;
}

}  // namespace
}  // namespace espalier::testing

int main(int argc, char** argv) { return espalier::testing::run(argc, argv); }
