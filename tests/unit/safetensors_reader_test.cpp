#include <array>
#include <string>
#include <string_view>

#include "safetensors_support.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/formats.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/foreign/safetensors/opener.h"
#include "espalier/read/opening_machine.h"

namespace {

using namespace espalier;
using namespace espalier::testing;

/// Opens a file that must be refused.
Error refusal(std::string_view file, Limits limits = {}) {
  const auto checkpoint = open_safetensors(file, limits);
  REQUIRE_MESSAGE(!checkpoint, "opened: " << file.substr(0, 200));
  INFO(checkpoint.error().describe());
  CHECK(!checkpoint.error().message.empty());
  CHECK(checkpoint.error().offset <= file.size());
  return checkpoint.error();
}

/// A tensor's entry in a header.
std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) +
         "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":" + std::string(offsets) + "}";
}

struct BadHeader {
  const char* json;
  std::size_t buffer;
  /// Part of the message.
  const char* says;
  /// Text at which the error's offset must point; null if it does not matter.
  const char* at;
};

}  // namespace

TEST_CASE("safetensors: headers that break the specification") {
  static constexpr std::array kBad = {
      BadHeader{"[]", 0, "does not begin with '{'", "[]"},
      BadHeader{" {}", 0, "does not begin with '{'", " {}"},
      BadHeader{"{\"a\xFF\":1}", 0, "not UTF-8", "\xFF"},
      BadHeader{"{\"a\xED\xA0\x80\":1}", 0, "not UTF-8", "\xED"},
      BadHeader{"{ ", 0, "not JSON", nullptr},
      BadHeader{"{\"a\"}", 0, "not JSON", nullptr},
      BadHeader{"{\"a\":}", 0, "not JSON", nullptr},
      BadHeader{"{,}", 0, "not JSON", nullptr},
      BadHeader{"{'a':1}", 0, "not JSON", nullptr},
      BadHeader{"{/**/}", 0, "not JSON", nullptr},
      BadHeader{"{\"a\n\":1}", 0, "not JSON", nullptr},
      BadHeader{"{\"\\ud800\":1}", 0, "not JSON", nullptr},
      BadHeader{"{\"\\x\":1}", 0, "not JSON", nullptr},
      BadHeader{"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],}}", 1, "not JSON",
                nullptr},
      BadHeader{"{\"\\udc00\":{}}", 0, "half a character", "\\udc00"},
      BadHeader{"{\"__metadata__\":{\"k\":\"\\udc00\"}}", 0, "half a character", "\\udc00"},
      BadHeader{"{}x", 0, "only spaces", "x"},
      BadHeader{"{}{}", 0, "only spaces", nullptr},
      BadHeader{"{} \n", 0, "only spaces", "\n"},
      BadHeader{"{}  \t", 0, "only spaces", "\t"},
      BadHeader{"{\"a\":1}", 0, "must be a JSON object with", "1}"},
      BadHeader{"{\"a\":null}", 0, "must be a JSON object with", "null"},
      BadHeader{"{\"a\":[]}", 0, "must be a JSON object with", nullptr},
      BadHeader{"{\"a\":\"b\"}", 0, "must be a JSON object with", "b\""},
      BadHeader{"{\"a\":{}}", 0, "no dtype", "a\""},
      BadHeader{"{\"a\":{\"dtype\":\"U8\"}}", 0, "no shape", "a\""},
      BadHeader{"{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, "no data_offsets", "a\""},
      BadHeader{"{\"a\":{\"shape\":[],\"data_offsets\":[0,1]}}", 1, "no dtype", "a\""},
      BadHeader{"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "no shape", "a\""},
      BadHeader{"{\"a\":{\"dtype\":\"U8\",\"x\":[[[[]]]]}}", 0, "field other than", "x\""},
      BadHeader{"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "dtype twice",
                "dtype\":\"U8\"}}"},
      BadHeader{"{\"a\":{\"shape\":[],\"shape\":[]}}", 0, "shape twice", "shape\":[]}}"},
      BadHeader{"{\"a\":{\"data_offsets\":[0,0],\"data_offsets\":[0,0]}}", 0, "data_offsets twice",
                "data_offsets\":[0,0]}}"},
      BadHeader{"{\"a\":{\"dtype\":\"f32\"}}", 0, "unknown dtype \"f32\"", "f32"},
      BadHeader{"{\"a\":{\"dtype\":\"C128\"}}", 0, "unknown dtype", "C128"},
      BadHeader{"{\"a\":{\"dtype\":\"\"}}", 0, "unknown dtype", nullptr},
      BadHeader{"{\"a\":{\"dtype\":7}}", 0, "dtype must be a string", "7"},
      BadHeader{"{\"a\":{\"dtype\":{}}}", 0, "dtype must be a string", nullptr},
      BadHeader{"{\"a\":{\"shape\":3}}", 0, "shape must be an array", "3"},
      BadHeader{"{\"a\":{\"shape\":{}}}", 0, "shape must be an array", nullptr},
      BadHeader{"{\"a\":{\"shape\":[[1]]}}", 0, "must hold integers", nullptr},
      BadHeader{"{\"a\":{\"shape\":[\"1\"]}}", 0, "must hold integers", "1\"]"},
      BadHeader{"{\"a\":{\"shape\":[null]}}", 0, "must hold integers", "null"},
      BadHeader{"{\"a\":{\"shape\":[true]}}", 0, "must hold integers", "true"},
      BadHeader{"{\"a\":{\"shape\":[1.0]}}", 0, "must hold integers", "1.0"},
      BadHeader{"{\"a\":{\"shape\":[1e3]}}", 0, "must hold integers", "1e3"},
      BadHeader{"{\"a\":{\"shape\":[-1]}}", 0, "must hold integers", "-1"},
      BadHeader{"{\"a\":{\"shape\":[-0]}}", 0, "must hold integers", "-0"},
      BadHeader{"{\"a\":{\"shape\":[-9223372036854775808]}}", 0, "must hold integers", "-9"},
      BadHeader{"{\"a\":{\"shape\":[18446744073709551616]}}", 0, "must hold integers", "184"},
      BadHeader{"{\"a\":{\"shape\":[99999999999999999999999]}}", 0, "must hold integers", "999"},
      BadHeader{"{\"a\":{\"shape\":[1e999]}}", 0, "not JSON", nullptr},
      BadHeader{"{\"a\":{\"shape\":[01]}}", 0, "not JSON", nullptr},
      BadHeader{"{\"a\":{\"shape\":[+1]}}", 0, "not JSON", nullptr},
      BadHeader{"{\"a\":{\"shape\":[NaN]}}", 0, "not JSON", nullptr},
      BadHeader{"{\"a\":{\"data_offsets\":[]}}", 0, "must be two numbers", nullptr},
      BadHeader{"{\"a\":{\"data_offsets\":[0]}}", 0, "must be two numbers", nullptr},
      BadHeader{"{\"a\":{\"data_offsets\":[0,1,2]}}", 0, "must be two numbers", "2]"},
      BadHeader{"{\"a\":{\"data_offsets\":[0,1.0]}}", 0, "must hold integers", "1.0"},
      BadHeader{"{\"a\":{\"data_offsets\":\"0\"}}", 0, "array of two numbers", "0\""},
      BadHeader{"{\"__metadata__\":null}", 0, "must be a JSON object of strings", "null"},
      BadHeader{"{\"__metadata__\":\"\"}", 0, "must be a JSON object of strings", nullptr},
      BadHeader{"{\"__metadata__\":{\"k\":1}}", 0, "must be strings", "1}"},
      BadHeader{"{\"__metadata__\":{\"k\":null}}", 0, "must be strings", "null"},
      BadHeader{"{\"__metadata__\":{\"k\":{}}}", 0, "must be strings", nullptr},
      BadHeader{"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ occurs twice",
                "__metadata__\":{}}"},
      BadHeader{"{\"__metadata__\":{\"k\":\"1\",\"j\":\"\",\"k\":\"2\"}}", 0, "same key twice",
                "k\":\"2\""},
      // The same name in another spelling.
      BadHeader{"{\"__metadata__\":{\"k\":\"1\",\"\\u006b\":\"2\"}}", 0, "same key twice", nullptr},
  };
  for (const BadHeader& bad : kBad) {
    CAPTURE(std::string(bad.json));
    const std::string file = safetensors_file(bad.json, bytes_of(bad.buffer));
    const Error error = refusal(file);
    CHECK(error.code == ErrorCode::kSafetensorsInvalid);
    CHECK_MESSAGE(error.message.find(bad.says) != std::string::npos, error.message);
    if (bad.at != nullptr) {
      CHECK_MESSAGE(file.substr(error.offset).starts_with(bad.at), error.offset);
    }
  }
}

TEST_CASE("safetensors: a zero byte does not end the header") {
  using namespace std::string_view_literals;
  const Error error = refusal(safetensors_file("{}\0garbage"sv));
  CHECK(error.message.find("zero byte") != std::string::npos);
  CHECK(error.offset == 10);
}

TEST_CASE("safetensors: lengths of files and headers") {
  for (std::size_t size = 0; size < 10; ++size) {
    const Error error = refusal(std::string(size, '\x01'));
    CHECK(error.code == ErrorCode::kSafetensorsInvalid);
    CHECK(error.message.find("fewer than") != std::string::npos);
  }
  CHECK(refusal(safetensors_file("", "{}")).message.find("too small") != std::string::npos);
  CHECK(refusal(safetensors_file("{", "}")).message.find("too small") != std::string::npos);

  std::string file = safetensors_file("{}");
  CHECK(open_safetensors(file));
  file[0] = 3;  // One byte more than there is.
  Error error = refusal(file);
  CHECK(error.code == ErrorCode::kSafetensorsInvalid);
  CHECK(error.message.find("only 2 bytes") != std::string::npos);
  std::fill_n(file.begin(), 8, '\xFF');  // 8 + 2^64 - 1 wraps around to 7.
  CHECK(refusal(file).code == ErrorCode::kSafetensorsInvalid);

  Limits limits;
  limits.foreign_header_bytes = 8;
  CHECK(open_safetensors(safetensors_file("{}      "), limits));
  error = refusal(safetensors_file("{}       "), limits);
  CHECK(error.code == ErrorCode::kLimitExceeded);
  CHECK(error.message.find("foreign_header_bytes") != std::string::npos);
}

TEST_CASE("safetensors: shapes, dtypes and offsets of one tensor") {
  const auto one = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return safetensors_file("{" + entry("t", dtype, shape, offsets) + "}", bytes_of(8));
  };
  CHECK(open_safetensors(one("F32", "[2]", "[0,8]")));
  CHECK(open_safetensors(one("F4", "[16]", "[0,8]")));

  const auto says = [&](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    const Error error = refusal(one(dtype, shape, offsets));
    CHECK(error.code == ErrorCode::kSafetensorsInvalid);
    CHECK(error.path == "t");
    CHECK(error.offset == 10);
    return error.message;
  };
  CHECK(says("F32", "[3]", "[0,8]") == "data_offsets cover 8 bytes, and dtype and shape need 12");
  CHECK(says("F32", "[]", "[0,8]").find("need 4") != std::string::npos);
  CHECK(says("F32", "[0]", "[0,8]").find("need 0") != std::string::npos);
  CHECK(says("U8", "[8]", "[8,0]") == "the tensor begins after its end");
  CHECK(says("F4", "[15]", "[0,8]").find("whole bytes") != std::string::npos);
  CHECK(says("F6_E2M3", "[3]", "[0,2]").find("whole bytes") != std::string::npos);
  CHECK(says("U8", "[4294967296,4294967296]", "[0,8]").find("2^64") != std::string::npos);
  CHECK(says("U64", "[2305843009213693952]", "[0,8]").find("2^63") != std::string::npos);
  CHECK(says("U64", "[2305843009213693953]", "[0,8]").find("2^63") != std::string::npos);
  // The product is multiplied up as the specification's library does it.
  CHECK(says("U8", "[4294967296,4294967296,0]", "[0,0]").find("2^64") != std::string::npos);
  CHECK(open_safetensors(
      safetensors_file("{" + entry("t", "U8", "[0,4294967296,4294967296]", "[0,0]") + "}")));
}

TEST_CASE("safetensors: the buffer is covered once, and wholly") {
  const auto file = [](std::string_view a, std::string_view b, std::size_t bytes) {
    return safetensors_file(
        "{" + entry("a", "U8", "[4]", a) + "," + entry("b", "U8", "[4]", b) + "}", bytes_of(bytes));
  };
  CHECK(open_safetensors(file("[0,4]", "[4,8]", 8)));
  CHECK(open_safetensors(file("[4,8]", "[0,4]", 8)));

  Error error = refusal(file("[0,4]", "[5,9]", 9));
  CHECK(error.message == "before the tensor is a gap of 1 byte");
  CHECK(error.path == "b");
  error = refusal(file("[1,5]", "[5,9]", 9));
  CHECK(error.message.find("before the tensor is a gap of") != std::string::npos);
  CHECK(error.path == "a");
  error = refusal(file("[0,4]", "[3,7]", 7));
  CHECK(error.message == "the tensor shares bytes with the one before it");
  CHECK(error.path == "b");
  error = refusal(file("[0,4]", "[0,4]", 4));
  CHECK(error.message == "the tensor shares bytes with the one before it");
  CHECK(error.code == ErrorCode::kSafetensorsInvalid);

  error = refusal(file("[0,4]", "[4,8]", 7));
  CHECK(error.code == ErrorCode::kTruncated);
  CHECK(error.path == "b");
  CHECK(error.message.find("1 byte before") != std::string::npos);
  error = refusal(file("[0,4]", "[4,8]", 10));
  CHECK(error.code == ErrorCode::kTrailingBytes);
  CHECK(error.message.find("for 2 bytes after") != std::string::npos);
  CHECK(error.offset == file("[0,4]", "[4,8]", 8).size());
  CHECK(refusal(safetensors_file("{}", "x")).code == ErrorCode::kTrailingBytes);

  // An empty tensor inside another.
  error = refusal(safetensors_file(
      "{" + entry("a", "U8", "[4]", "[0,4]") + "," + entry("b", "U8", "[0]", "[2,2]") + "}",
      bytes_of(4)));
  CHECK(error.path == "b");
}

TEST_CASE("safetensors: names that repeat") {
  const std::string a = entry("a", "U8", "[1]", "[0,1]");
  const std::string b = entry("a", "U8", "[1]", "[1,2]");
  Error error = refusal(safetensors_file("{" + a + "," + b + "}", bytes_of(2)));
  CHECK(error.code == ErrorCode::kSafetensorsInvalid);
  CHECK(error.message == "two tensors have the same name");
  CHECK(error.path == "a");
  // Spelled differently.
  error = refusal(
      safetensors_file("{" + a + "," + entry("\\u0061", "U8", "[1]", "[1,2]") + "}", bytes_of(2)));
  CHECK(error.message == "two tensors have the same name");
  // Equal entries.
  const std::string empty = entry("a", "U8", "[0]", "[0,0]");
  CHECK(refusal(safetensors_file("{" + empty + "," + empty + "}")).message ==
        "two tensors have the same name");
  // A tensor may be called as a key or a value of the metadata is.
  CHECK(open_safetensors(safetensors_file("{\"__metadata__\":{\"a\":\"a\"}," + a + "}", "x")));
}

TEST_CASE("safetensors: limits") {
  const std::string two =
      safetensors_file("{\"__metadata__\":{\"k\":\"v\"}," + entry("a", "U8", "[1,1]", "[0,1]") +
                           "," + entry("b", "U8", "[1]", "[1,2]") + "}",
                       bytes_of(2));
  Limits limits;
  limits.nodes = 5;
  limits.rank = 2;
  limits.path_bytes = 1;
  CHECK(open_safetensors(two, limits));

  limits.nodes = 4;
  CHECK(refusal(two, limits).code == ErrorCode::kLimitExceeded);
  limits.nodes = 5;
  limits.rank = 1;
  Error error = refusal(two, limits);
  CHECK(error.code == ErrorCode::kLimitExceeded);
  CHECK(error.message.find("Limits::rank") != std::string::npos);
  CHECK(error.path == "a");
  limits.rank = 2;
  limits.path_bytes = 0;
  error = refusal(two, limits);
  CHECK(error.code == ErrorCode::kLimitExceeded);
  CHECK(error.message.find("Limits::path_bytes") != std::string::npos);

  // Chunk records are bounded before they are made: 2^50 bytes would need 2^30 of them. No bytes of
  // the buffer are looked at, so none need to be there.
  const std::string json =
      "{" + entry("a", "U8", "[1125899906842624]", "[0,1125899906842624]") + "}";
  const std::string front = safetensors_file(json);
  SafetensorsOpener opener({.file_size = front.size() + (std::uint64_t{1} << 50)});
  REQUIRE(opener.needs().size() == 1);
  std::string bytes =
      front + std::string(static_cast<std::size_t>(kFirstReadBytes) - front.size(), '\0');
  REQUIRE(opener.feed(opener.needs().front(), as_bytes(bytes)));
  const auto opened = opener.finish();
  REQUIRE(!opened);
  CHECK(opened.error().code == ErrorCode::kLimitExceeded);
  CHECK(opened.error().message.find("Limits::index_bytes") != std::string::npos);
}

TEST_CASE("safetensors: nesting is refused where it begins") {
  std::string json = "{\"a\":{\"x\":";
  json.append(1'000'000, '[');
  const Error error = refusal(safetensors_file(json));
  CHECK(error.message.find("field other than") != std::string::npos);
  std::string objects = "{\"a\":{\"dtype\":";
  for (int i = 0; i < 300'000; ++i) objects += "{\"a\":";
  CHECK(refusal(safetensors_file(objects)).message.find("dtype must be") != std::string::npos);
}

TEST_CASE("safetensors: a file's tensors and metadata") {
  const std::string file = safetensors_file(
      "{ \"b\" : {\"data_offsets\":[0,4],\"shape\":[2,1],\"dtype\":\"BF16\"},\n"
      "\"__metadata__\":{\"z\":\"1\",\"a\":\"\\u00e9\"}," +
          entry("y", "U8", "[0,3]", "[4,4]") + "," + entry("a\\u002fb", "I64", "[]", "[4,12]") +
          "," + entry("c", "F4", "[2]", "[12,13]") + "}   ",
      bytes_of(13));
  for (const std::uint64_t piece : {1u, 7u, 1000u}) {
    const auto checkpoint = open_safetensors(file, {}, piece);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    CHECK(checkpoint->catalog().format() == kSafetensorsFormat);
    CHECK(!checkpoint->catalog().has_hashes());
    const NodeRef state = checkpoint->state();
    REQUIRE(state.kind() == Kind::kDict);
    REQUIRE(state.size() == 4);
    // In the order of the bytes, an empty one before what starts at the same place.
    CHECK(state.key(0).text == "b");
    CHECK(state.key(1).text == "y");
    CHECK(state.key(2).text == "a/b");
    CHECK(state.key(3).text == "c");
    const TensorRef b = *state.child(0).tensor();
    CHECK(b.dtype() == DType::kBF16);
    CHECK(b.shape().size() == 2);
    CHECK(b.shape()[0] == 2);
    CHECK(b.raw_extent() == Extent{0, file.size() - 13, 4});
    const TensorRef ab = *state.find(KeyView::of("a/b"))->tensor();
    CHECK(ab.dtype() == DType::kI64);
    CHECK(ab.shape().empty());
    CHECK(ab.raw_extent() == Extent{0, file.size() - 9, 8});
    CHECK(state.child(1).tensor()->bytes() == 0);
    CHECK(state.child(3).tensor()->dtype() == DType::kF4E2M1FN);

    const NodeRef metadata = checkpoint->metadata();
    REQUIRE(metadata.size() == 2);
    CHECK(metadata.key(0).text == "z");
    CHECK(metadata.child(0).as_string() == "1");
    CHECK(metadata.child(1).as_string() == "\u00e9");
  }
}

TEST_CASE("safetensors: every dtype by its name") {
  const auto open_one = [](std::string_view name, std::size_t bits) {
    return open_safetensors(safetensors_file(
        "{" + entry("t", name, "[8]", "[0," + std::to_string(bits) + "]") + "}", bytes_of(bits)));
  };
  struct Named {
    const char* name;
    DType dtype;
  };
  static constexpr std::array kNames = {
      Named{"BOOL", DType::kBool},
      Named{"U8", DType::kU8},
      Named{"I8", DType::kI8},
      Named{"U16", DType::kU16},
      Named{"I16", DType::kI16},
      Named{"U32", DType::kU32},
      Named{"I32", DType::kI32},
      Named{"U64", DType::kU64},
      Named{"I64", DType::kI64},
      Named{"F16", DType::kF16},
      Named{"BF16", DType::kBF16},
      Named{"F32", DType::kF32},
      Named{"F64", DType::kF64},
      Named{"C64", DType::kC64},
      Named{"F8_E4M3", DType::kF8E4M3FN},
      Named{"F8_E5M2", DType::kF8E5M2},
      Named{"F8_E4M3FNUZ", DType::kF8E4M3FNUZ},
      Named{"F8_E5M2FNUZ", DType::kF8E5M2FNUZ},
      Named{"F8_E8M0", DType::kF8E8M0FNU},
      Named{"F4", DType::kF4E2M1FN},
      Named{"F6_E2M3", DType::kF6E2M3FN},
      Named{"F6_E3M2", DType::kF6E3M2FN},
  };
  for (const Named& named : kNames) {
    CAPTURE(named.name);
    const auto checkpoint = open_one(named.name, dtype_bits(named.dtype));
    REQUIRE(checkpoint);
    CHECK(checkpoint->state().child(0).tensor()->dtype() == named.dtype);
  }
}

TEST_CASE("safetensors: large tensors have chunks, large dicts an order") {
  constexpr std::size_t kBytes = (1u << 20) + 5;
  std::string json = "{";
  for (int i = 19; i >= 0; --i) json += entry("n" + std::to_string(i), "U8", "[0]", "[0,0]") + ",";
  // Before the others in the file, and in the middle of their names.
  json +=
      entry("n1x", "U8", "[" + std::to_string(kBytes) + "]", "[0," + std::to_string(kBytes) + "]");
  json += "," + entry("a", "U8", "[1]",
                      "[" + std::to_string(kBytes) + "," + std::to_string(kBytes + 1) + "]");
  json += "}";
  const auto checkpoint =
      open_safetensors(safetensors_file(json, bytes_of(kBytes + 1)), {}, 100'000);
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  const auto big = checkpoint->state().find(KeyView::of("n1x"));
  REQUIRE(big);
  CHECK(big->tensor()->chunk_count() == 2);
  CHECK(big->tensor()->raw_extent()->length == kBytes);
  CHECK(checkpoint->state().key(21).text == "a");
  for (int i = 0; i < 20; ++i) {
    CHECK(checkpoint->state().find(KeyView::of("n" + std::to_string(i))));
  }
}

TEST_CASE("safetensors: files of the public package open") {
  for (const char* name : {"dtypes", "empty", "empty_metadata", "metadata_only", "metadata_many",
                           "shapes", "names", "model"}) {
    CAPTURE(name);
    const std::string file = safetensors_example(name);
    const auto checkpoint = open_safetensors(file);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    // No prefix of a file is a file.
    for (std::size_t size = 0; size < file.size(); size += 1 + size / 16) {
      CHECK(!open_safetensors(std::string_view(file).substr(0, size)));
    }
  }
  const auto dtypes = open_safetensors(safetensors_example("dtypes"));
  CHECK(dtypes->tensor_count() == 20);
  const auto shapes = open_safetensors(safetensors_example("shapes"));
  CHECK(shapes->state().find(KeyView::of("scalar"))->tensor()->shape().empty());
  CHECK(shapes->state().find(KeyView::of("empty_in_the_middle"))->tensor()->elements() == 0);
  const auto names = open_safetensors(safetensors_example("names"));
  CHECK(names->state().find(KeyView::of("")));
  CHECK(names->state().find(KeyView::of(std::string_view("\0\x01\x1f\x7f", 4))));
  const auto empty_metadata = open_safetensors(safetensors_example("empty_metadata"));
  CHECK(empty_metadata->metadata().label());
  const auto empty = open_safetensors(safetensors_example("empty"));
  CHECK(!empty->metadata().label());
}

TEST_CASE("safetensors: a header of more than one read") {
  std::string json = "{";
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    if (i > 0) json += ',';
    json += entry("tensor." + std::to_string(i), "U8", "[1]",
                  "[" + std::to_string(i) + "," + std::to_string(i + 1) + "]");
  }
  json += "}";
  REQUIRE(json.size() > kFirstReadBytes);
  const std::string file = safetensors_file(json, bytes_of(3000));
  // Whole, so that the fed bytes exceed the needed ones, and in pieces.
  SafetensorsOpener whole({.file_size = file.size()});
  REQUIRE(whole.feed({0, 0, file.size()}, as_bytes(file)));
  CHECK(whole.needs().empty());
  REQUIRE(whole.finish());
  CHECK(whole.finish().error().code == ErrorCode::kIncomplete);
  const auto checkpoint = open_safetensors(file, {}, 4096);
  REQUIRE(checkpoint);
  CHECK(checkpoint->tensor_count() == 3000);
  CHECK(checkpoint->state().find(KeyView::of("tensor.2999"))->tensor()->raw_extent() ==
        Extent{0, file.size() - 1, 1});

  SafetensorsOpener opener({.file_size = file.size()});
  CHECK(opener.finish().error().code == ErrorCode::kIncomplete);
  REQUIRE(opener.feed({0, 0, kFirstReadBytes}, as_bytes(file).first(kFirstReadBytes)));
  CHECK(opener.finish().error().code == ErrorCode::kIncomplete);
}

TEST_CASE("safetensors: told from other formats, and others from it") {
  using namespace std::string_literals;
  struct Case {
    std::string what;
    std::string front;
    std::uint64_t file_size;
    std::string format;
  };
  const auto lengths = [](std::uint64_t length, const std::string& more) {
    std::string front(8, '\0');
    store_le(reinterpret_cast<std::byte*>(front.data()), length);
    return front + more;
  };
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 40;
  const std::string json = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::string frame = "\x80\x04\x95\x07\0\0\0\0\0\0\0}\x94(\x8c\x01"s;
  const Case cases[] = {
      {"a length like a msgpack map", lengths(0x20A188, json), 2'138'513, "safetensors"},
      {"the same, cut", lengths(0x20A188, json), 100'000, "safetensors"},
      {"a length like a zip archive", lengths(0x04034B50, json), 67'324'761, "safetensors"},
      {"a length like a pickle", lengths(0x0280, json), 649, "safetensors"},
      {"a length like a GGUF file", lengths(0x46554747, json), kLarge, "safetensors"},
      {"GGUF of 123 tensors", lengths(0x00000003'46554747, lengths('{', "")), kLarge, "gguf"},
      {"msgpack with five numbers", "\x81\xA1x\x95\0\0\0\0{"s, kLarge, "msgpack"},
      {"a short frame of protocol 4", frame, 209'715'300, "torch"},
      {"a short frame of protocol 5", "\x80\x05" + frame.substr(2), kLarge, "torch"},
      {"a brace in protocol 0", "(dp0\nVab{\np1\nI1\ns.", 19, "torch"},
      {"a brace in protocol 2", "\x80\x02X\x04\0\0\0a{bcq\0."s, 14, "torch"},
      // Of a damaged file, unless it is known to be another one.
      {"no brace", lengths(60, std::string(100, ' ')), 108, "safetensors"},
      {"a length that cannot be", lengths(~std::uint64_t{0}, json), 100, "safetensors"},
      {"a length of more than is read", lengths(100'000'001, "x"), kLarge, "none"},
      {"a tar archive of ./", ("./"s + std::string(255, '\0') + "ustar"), kLarge, "none"},
      {"a gzip file without a time", "\x1F\x8B\x08\0\0\0\0\0\0\x03"s, kLarge, "none"},
      {"JSON", R"({"data":{"a":1}})", 16, "none"},
      {"a text", "class A {};", 11, "none"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const FileKind* const kind = kind_of(as_bytes(c.front), c.file_size, {});
    const FormatInfo* const format =
        kind == nullptr || kind->format.empty() ? nullptr : &kind->format.front();
    CHECK((format == nullptr ? "none"s : std::string(format->name)) == c.format);
  }
}

TEST_CASE("safetensors: a length without a header looks like no file") {
  const std::string length = '\x40' + std::string(7, '\0');
  CHECK(looks_like_safetensors(as_bytes(length + " "), 1000));
  CHECK_FALSE(looks_like_safetensors(as_bytes(length), 1000));
}
