// Files as flax writes them, by hand: every kind of object, and every rule that a file can break.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/feed.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/msgpack/format.h"
#include "espalier/foreign/msgpack/opener.h"
#include "espalier/foreign/safetensors/opener.h"
#include "espalier/format/access.h"
#include "espalier/notes.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

using namespace std::string_literals;

std::string big_endian(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = width - 1; i >= 0; --i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string text(const std::string& value) {
  return (value.size() < 32 ? std::string(1, static_cast<char>(0xA0 + value.size()))
                            : "\xDB" + big_endian(value.size(), 4)) +
         value;
}

std::string map(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string bytes = "\xDE" + big_endian(members.size(), 2);
  for (const auto& [key, value] : members) bytes += text(key) + value;
  return bytes;
}

std::string extension(int type, const std::string& payload) {
  return "\xC9" + big_endian(payload.size(), 4) + static_cast<char>(type) + payload;
}

std::string array(const std::vector<unsigned>& shape, const std::string& dtype,
                  const std::string& data, int type = 1) {
  std::string bytes = "\x93" + std::string(1, static_cast<char>(0x90 + shape.size()));
  for (const unsigned axis : shape) bytes += "\xCE" + big_endian(axis, 4);
  return extension(type, bytes + text(dtype) + "\xC6" + big_endian(data.size(), 4) + data);
}

Result<Checkpoint> open(const std::string& file, const OpenOptions& extra = {},
                        std::uint64_t piece = ~std::uint64_t{0}) {
  OpenOptions options = extra;
  options.file_size = file.size();
  MsgpackOpener opener(options);
  if (auto ok = testing::feed_steps(opener, as_bytes(file), piece); !ok) return propagate(ok);
  return opener.finish();
}

std::string bytes_of(const std::string& file, const TensorRef& tensor) {
  std::string bytes;
  for (const ChunkRecord& chunk : table_chunks(tensor.catalog().tables(), tensor.number())) {
    bytes += file.substr(static_cast<std::size_t>(chunk.offset), chunk.stored);
  }
  return bytes;
}

std::string notes_of(const Checkpoint& checkpoint) {
  std::string lines;
  for (const Note& note : checkpoint.catalog().notes().listed()) {
    lines += note.path + ": " + note.message + '\n';
  }
  return lines;
}

TEST_CASE("Every object of msgpack becomes its node") {
  const std::string file = map({{"nil", "\xC0"},
                                {"no", "\xC2"},
                                {"yes", "\xC3"},
                                {"small", "\x7F"},
                                {"minus", "\xE0"},
                                {"u8", "\xCC\xFF"},
                                {"u16", "\xCD\xFF\xFE"},
                                {"u32", "\xCE\xFF\xFF\xFF\xFE"},
                                {"u64", "\xCF" + std::string(8, '\xFF')},
                                {"i8", "\xD0\x80"},
                                {"i16", "\xD1\x80\x00"s},
                                {"i32", "\xD2\xFF\xFF\xFF\xFE"},
                                {"i64", "\xD3\x80" + std::string(7, '\0')},
                                {"f32", "\xCA\x3F\xC0\x00\x00"s},
                                {"f64", "\xCB\x3F\xB9\x99\x99\x99\x99\x99\x9A"},
                                {"str8", "\xD9\x02hi"},
                                {"str16", "\xDA\x00\x02hi"s},
                                {"bin8", "\xC4\x02\x00\xFF"s},
                                {"bin16", "\xC5\x00\x01x"s},
                                {"bin32", "\xC6\x00\x00\x00\x00"s},
                                {"complex", extension(2, "\x92\xCB\x3F\xF8" + std::string(6, '\0') +
                                                             "\xCA\xC0" + std::string(3, '\0'))},
                                {"ext1", "\xD4\x09x"},
                                {"ext8", "\xC7\x03\xFFxyz"},
                                {"list", "\x92\x01\x90"},
                                {"list16", "\xDC\x00\x01\xC0"s},
                                {"map32", "\xDF\x00\x00\x00\x01\x05\xC0"s},
                                {"empty", "\x80"}});
  for (const std::uint64_t piece : {1u, 7u, 100000u}) {
    const auto checkpoint = open(file, {}, piece);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    const NodeRef state = checkpoint->state();
    REQUIRE(state.size() == 27);
    CHECK(state.at("nil")->kind() == Kind::kNull);
    CHECK(state.at("no")->as_bool() == false);
    CHECK(state.at("yes")->as_bool() == true);
    const std::pair<const char*, std::int64_t> integers[] = {
        {"small", 127},  {"minus", -32},      {"u8", 255},
        {"u16", 65534},  {"u32", 4294967294}, {"i8", -128},
        {"i16", -32768}, {"i32", -2},         {"i64", std::numeric_limits<std::int64_t>::min()}};
    for (const auto& integer : integers) {
      CAPTURE(integer.first);
      CHECK(state.at(integer.first)->as_int64() == integer.second);
    }
    CHECK(state.at("u64")->as_bigint()->to_decimal() == "18446744073709551615");
    CHECK(state.at("f32")->as_double() == 1.5);
    CHECK(state.at("f64")->as_double() == 0.1);
    CHECK(state.at("str8")->as_string() == "hi");
    CHECK(state.at("str16")->as_string() == "hi");
    CHECK(as_text(*state.at("bin8")->as_bytes()) == "\0\xFF"s);
    CHECK(as_text(*state.at("bin16")->as_bytes()) == "x");
    CHECK(state.at("bin32")->as_bytes()->empty());
    CHECK(state.at("complex")->as_complex() == Complex(1.5, -2));
    CHECK(as_text(*state.at("ext1")->as_bytes()) == "x");
    CHECK(state.at("ext1")->label() == "msgpack.extension.9");
    CHECK(state.at("ext8")->label() == "msgpack.extension.-1");
    CHECK(state.at("list")->kind() == Kind::kList);
    CHECK(state.at("list/0")->as_int64() == 1);
    CHECK(state.at("list/1")->size() == 0);
    CHECK(state.at("list16/0")->kind() == Kind::kNull);
    CHECK(state.at("map32/5")->kind() == Kind::kNull);
    CHECK(state.at("empty")->kind() == Kind::kDict);
    CHECK(notes_of(*checkpoint) ==
          "ext1: flax has no meaning for the extension type 9; its bytes are kept\n"
          "ext8: flax has no meaning for the extension type -1; its bytes are kept\n");
  }
}

TEST_CASE("Arrays are tensors where they lie in the file") {
  const std::string file = map({{"w", array({2, 2}, "float32", "0123456789abcdef")},
                                {"b", array({3}, "bfloat16", "ABCDEF")},
                                {"f8", array({1}, "float8_e4m3fn", "x")},
                                {"scalar", array({}, "int64", "12345678", 3)},
                                {"times", array({2}, "datetime64[D]", "0123456789abcdef")},
                                {"text", array({}, "str64", "12345678")},
                                {"i4", array({2}, "int4", "xy")},
                                {"none", array({0, 3}, "float64", "")}});
  const auto checkpoint = open(file);
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  const auto check = [&](const char* name, DType dtype, std::vector<std::uint64_t> shape,
                         const std::string& bytes) {
    CAPTURE(name);
    const TensorRef tensor = *checkpoint->state().at(name)->tensor();
    CHECK(tensor.dtype() == dtype);
    CHECK(std::vector<std::uint64_t>(tensor.shape().begin(), tensor.shape().end()) == shape);
    CHECK(bytes_of(file, tensor) == bytes);
  };
  check("w", DType::kF32, {2, 2}, "0123456789abcdef");
  check("b", DType::kBF16, {3}, "ABCDEF");
  check("f8", DType::kF8E4M3FN, {1}, "x");
  check("scalar", DType::kI64, {}, "12345678");
  check("times", DType::kOpaque, {2}, "0123456789abcdef");
  check("text", DType::kOpaque, {1}, "12345678");
  check("i4", DType::kOpaque, {2}, "xy");
  check("none", DType::kF64, {0, 3}, "");
  CHECK(checkpoint->state().at("scalar")->label() == "numpy.int64");
  const BlockType block = checkpoint->state().at("times")->tensor()->block();
  CHECK(block == BlockType{"datetime64[D]", 1, 8});
  CHECK(notes_of(*checkpoint)
            .starts_with("times: the dtype 'datetime64[D]' has no counterpart, so each element is "
                         "8 bytes without a "
                         "meaning\n"));
  CHECK(checkpoint->catalog().notes().count() == 3);
}

// As flax cuts arrays of more than a GiB.
std::string chunked(const std::vector<unsigned>& shape, const std::vector<std::string>& chunks,
                    const std::string& dtype = "uint8") {
  std::vector<std::pair<std::string, std::string>> axes;
  std::vector<std::pair<std::string, std::string>> parts;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    axes.emplace_back(std::to_string(i), "\xCE" + big_endian(shape[i], 4));
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    parts.emplace_back(std::to_string(i),
                       array({static_cast<unsigned>(chunks[i].size())}, dtype, chunks[i]));
  }
  return map({{"__msgpack_chunked_array__", "\xC3"}, {"shape", map(axes)}, {"chunks", map(parts)}});
}

TEST_CASE("An array in chunks is one tensor if they are whole MiB") {
  const std::string first(2 * kChunkBytes, 'a');
  const std::string second(kChunkBytes, 'b');
  const std::string file =
      map({{"w", chunked({1025, 3072}, {first, second, std::string(3072, 'c')})}});
  for (const std::uint64_t piece : {1000u, 100'000'000u}) {
    const auto checkpoint = open(file, {}, piece);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    const TensorRef tensor = *checkpoint->state().at("w")->tensor();
    CHECK(tensor.shape()[0] == 1025);
    CHECK(bytes_of(file, tensor) == first + second + std::string(3072, 'c'));
    CHECK_FALSE(tensor.raw_extent());
  }
  std::string of_two_dtypes = chunked({2 * kChunkBytes}, {second, second}, "int8");
  of_two_dtypes.replace(of_two_dtypes.rfind("int8"), 4, "bool");
  // Others stay as they are.
  const std::string short_first(kChunkBytes - 1, 'a');
  for (const std::string& odd :
       {of_two_dtypes, chunked({kChunkBytes}, {short_first, "b"}), chunked({kChunkBytes}, {first}),
        chunked({7}, {}), chunked({kChunkBytes, 0}, {second, ""}),
        chunked({kChunkBytes}, {second, ""}),
        chunked({2 * kChunkBytes, 1u << 31, 1u << 31, 4}, {first})}) {
    const auto checkpoint = open(map({{"w", odd}}));
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    CHECK(checkpoint->state().at("w")->kind() == Kind::kDict);
    CHECK(notes_of(*checkpoint) ==
          "w: this looks like an array in chunks, but they cannot be joined; it stays a dict\n");
  }
}

TEST_CASE(
    "Texts that stand for arrays in another folder become placeholders where no file is found") {
  const std::string file = map({{"a", text("PLACEHOLDER://params.a")},
                                {"b", "\x91" + text("//GDAPlaceholder:b")},
                                {"c", text("a PLACEHOLDER://")}});
  MsgpackOpener opener({.file_size = file.size()});
  while (!opener.wants().empty() || !opener.needs().empty()) {
    REQUIRE(testing::feed_steps(opener, as_bytes(file), 100000));
    while (!opener.wants().empty()) {
      const Error missing{ErrorCode::kFileMissing, Error::kNoOffset, {}, "it is not there"};
      REQUIRE(opener.answer(opener.wants().front().number, tl::unexpected<Error>(missing)));
    }
  }
  const auto checkpoint = opener.finish();
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  CHECK(checkpoint->state().at("a")->kind() == Kind::kPlaceholder);
  CHECK(checkpoint->state().at("b/0")->kind() == Kind::kPlaceholder);
  CHECK(checkpoint->state().at("c")->as_string() == "a PLACEHOLDER://");
  CHECK(notes_of(*checkpoint) ==
        ": only the names are known of 1 array in folders beside the file: their folder is called "
        "after the file, whose name is not known here; say it, or open the file by its path\n"
        "a: this array cannot be read: its file params.a/.zarray is missing\n");
  CHECK(checkpoint->catalog().notes().listed()[0].kind == Note::Kind::kLoss);
}

TEST_CASE("Arrays larger than a window are not read") {
  const std::string file = map({{"a", array({3'000'000}, "uint8", std::string(3'000'000, 'a'))},
                                {"b", array({3'000'000}, "uint8", std::string(3'000'000, 'b'))},
                                {"c", "\x01"}});
  MsgpackOpener opener({.file_size = file.size()});
  std::uint64_t fed = 0;
  int requests = 0;
  while (!opener.needs().empty()) {
    const Extent need = opener.needs().front();
    fed += need.length;
    ++requests;
    REQUIRE(opener.feed(need, testing::bytes_at(as_bytes(file), need)));
  }
  REQUIRE(opener.finish());
  CHECK(requests == 3);
  CHECK(fed < 3 * kFirstReadBytes);
  // Plain objects come in larger and larger windows.
  std::vector<std::pair<std::string, std::string>> members;
  for (int i = 0; i < 60000; ++i) members.emplace_back("key" + std::to_string(i), text("value"));
  members.emplace_back("long", text(std::string(6'000'000, 'x')));
  const auto checkpoint = open(map(members), {}, 4096);
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  CHECK(checkpoint->state().size() == 60001);
}

TEST_CASE("A bad file is refused with its sentence") {
  struct Case {
    std::string file;
    const char* path;
    const char* message;
    ErrorCode code = ErrorCode::kForeignInvalid;
  };
  const std::string good = array({2}, "int8", "ab");
  const Case cases[] = {
      {map({{"a", "\xC1"}}), "a", "0xC1 begins no msgpack object"},
      {map({{"a", "\xA1\xFF"}}), "a", "not UTF-8"},
      {map({{"a", "\x01"}, {"a", "\x01"}}), "a", "the same key twice"},
      {map({{"a", "\x81\xC0\x01"}}), "a", "neither a text nor an integer"},
      {map({{"a", "\x81\x90\x01"}}), "a", "neither a text nor an integer"},
      {map({{"a", "\x81\xCF" + std::string(8, '\xFF') + "\x01"}}), "a", "neither a text"},
      {map({{"a", "\xDD\xFF\xFF\xFF\xFF"}}), "a", "more than the rest of the file"},
      {"\xDF\xFF\xFF\xFF\xFF\xA1\x61\x01"s, "", "more than the rest of the file"},
      {map({{"a", "\x92\x01\xA5"}}), "a/1", "ends inside an object", ErrorCode::kTruncated},
      {map({{"a", "\x01"}}) + "\x01", "", "goes on for 1 byte", ErrorCode::kTrailingBytes},
      {map({{"a", good.substr(0, good.size() - 1)}}), "a", "ends inside an array",
       ErrorCode::kTruncated},
      {map({{"a", extension(1, "\x92\x90\xA1x\xC4\x01x")}}), "a", "is not [shape,"},
      {map({{"a", extension(1, "\x93\xA1x\xA1x\xC4\x01x")}}), "a", "is not [shape,"},
      {map({{"a", extension(1, "\x93\x91\xFF\xA4int8\xC4\x01x")}}), "a", "is not [shape,"},
      {map({{"a", extension(1, "\x93\x90\xC0\xC4\x01x        ")}}), "a", "is not [shape,"},
      {map({{"a", extension(1, "\x93\x90\xA4int8\xA1x")}}), "a", "is not [shape,"},
      {map({{"a", extension(1, "\x93\x90\xA4int8\xC4\x01xy")}}), "a", "more or less"},
      {map({{"a", extension(1, "\x93\x90\xA4int8\xC4\x05x")}}), "a", "more or less"},
      {map({{"a", extension(1, "\x93\xDC\xFF\xFF" + std::string(70000, '\x01'))}}), "a",
       "65535 axes"},
      {map({{"a", array({3}, "int8", "ab")}}), "a", "do not fit its shape"},
      {map({{"a", array({1u << 31, 1u << 31, 4}, "int8", "")}}), "a", "do not fit its shape"},
      {map({{"a", array({1u << 31, 1u << 31, 4}, "text", "")}}), "a", "do not fit its shape"},
      {map({{"a", array({3}, "text", "ab")}}), "a", "do not fit its shape"},
      {map({{"a", extension(2, "\x92\x01\xCA\x00\x00\x00\x00"s)}}), "a", "two floats"},
      {map({{"a", extension(2, "\x91\xCB" + std::string(8, '\0'))}}), "a", "two floats"},
      {map({{"a", std::string(300, '\x91') + "\xC0"}}), nullptr, "Limits::depth",
       ErrorCode::kLimitExceeded},
  };
  CHECK(open(map(
      {{"a", extension(1, "\x93\xDC\x00\x40"s + std::string(64, '\x01') + "\xA4int8\xC4\x01x")}})));
  for (const Case& c : cases) {
    CAPTURE(&c - cases);
    const auto checkpoint = open(c.file);
    REQUIRE_FALSE(checkpoint);
    testing::check_error(checkpoint, c.code, c.path != nullptr ? c.path : checkpoint.error().path,
                         c.message);
  }
  Limits limits;
  limits.nodes = 20;
  const auto many =
      open(map({{"a", "\xDC\x03\xE8" + std::string(1000, '\x01')}}), {.limits = limits});
  testing::check_error(many, ErrorCode::kLimitExceeded, many.error().path, "Limits::nodes");
  limits = {};
  limits.rank = 1;
  testing::check_error(open(map({{"a", array({1, 1}, "int8", "x")}}), {.limits = limits}),
                       ErrorCode::kLimitExceeded, "a", "Limits::rank");
  limits = {};
  limits.bigint_bytes = 8;
  testing::check_error(open(map({{"a", "\xCF" + std::string(8, '\xFF')}}), {.limits = limits}),
                       ErrorCode::kLimitExceeded, "a", "Limits::bigint_bytes");
  limits = {};
  limits.foreign_header_bytes = 1000;
  const std::string large = map({{"a", text(std::string(2000, 'x'))}});
  const auto too_large = open(large, {.limits = limits});
  testing::check_error(too_large, ErrorCode::kLimitExceeded, too_large.error().path,
                       "Limits::foreign_header_bytes");
  CHECK(open(map({{"a", array({2000}, "int8", std::string(2000, 'x'))}}), {.limits = limits}));
}

TEST_CASE("A file cut anywhere is truncated") {
  const std::string file =
      map({{"w", array({2}, "int16", "abcd")},
           {"c", extension(2, "\x92\xCA" + std::string(4, '\0') + "\xCB" + std::string(8, '\0'))},
           {"l", "\x92\x01\xA2xy"}});
  REQUIRE(open(file));
  for (std::size_t size = 1; size < file.size(); ++size) {
    CAPTURE(size);
    const auto cut = open(file.substr(0, size));
    REQUIRE_FALSE(cut);
    const bool is_count = cut.error().message.find("rest of the file") != std::string::npos;
    CHECK((cut.error().code == ErrorCode::kTruncated || is_count));
  }
}

TEST_CASE("No other format is taken for msgpack") {
  const auto looks = [](const std::string& file) {
    return looks_like_msgpack(as_bytes(file), file.size());
  };
  CHECK(looks("\x81\xA1x\x01"));
  CHECK(looks(map({{"params", "\x80"}})));
  CHECK(looks("\xDF\x00\x00\x00\x01\xD9\x01x\x01"s));
  // An int as the ninth byte, which is a brace.
  const std::string brace = "\x81\xA6step_n{";
  CHECK(looks(brace));
  AnyOpener opener({.file_size = brace.size()});
  REQUIRE(opener.feed({0, 0, brace.size()}, as_bytes(brace)));
  const auto opened = opener.finish();
  CHECK(opened->catalog().format() == kMsgpackFormat);
  // An empty map alone is more often a pickle that was cut.
  for (const std::string& other : {"\x80"s,
                                   "\x80\x02}q\x00."s,
                                   "\x80\x04\x95"s,
                                   "\x80\xA1x\x01"s,
                                   "\x89HDF\r\n\x1A\n"s,
                                   "\x89PNG\r\n\x1A\n"s,
                                   "\x89"
                                   "ESPL\r\x1A\n"s,
                                   "\x93NUMPY\x01"s,
                                   "abcde\xA1x\x01"s,
                                   "\x81\xDA\x01"s,
                                   "\x81\x61x\x01"s,
                                   "\x81\xA1x"s,
                                   "\x81\xA1x\xC1"s,
                                   "\x81\xA1\xFF\x01"s,
                                   "\x81\xA0\x01"s,
                                   "\x81\x01\x01"s,
                                   "\x81"s,
                                   "\xDE\x00"s,
                                   "\x81\xA5x"s,
                                   ""s,
                                   "{}"s}) {
    CHECK_FALSE(looks(other));
  }
  // Every length of a safetensors header that begins like a map.
  for (std::uint32_t low = 0; low < 0x10000; ++low) {
    for (const std::uint32_t high : {0u, 1u, 0xA1u, 0x1A1u, 0x5F5u}) {
      const std::uint64_t length = low | std::uint64_t{high} << 16;
      std::string file(8, '\0');
      store_le(reinterpret_cast<std::byte*>(file.data()), length);
      file += R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})" + std::string(100, ' ');
      REQUIRE_FALSE(looks_like_msgpack(as_bytes(file), 1u << 30));
    }
  }
}

}  // namespace
}  // namespace espalier
