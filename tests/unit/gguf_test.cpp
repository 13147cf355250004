// GGUF files: what opens as what, what is refused and how it is said, and what is asked for.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/feed.h"
#include "support/gguf_bytes.h"
#include <doctest/doctest.h>

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/gguf/format.h"
#include "espalier/foreign/gguf/opener.h"
#include "espalier/format/file_set.h"
#include "espalier/notes.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/to_value.h"

namespace espalier {
namespace {

using testing::GgufBytes;

Result<Checkpoint> open(std::string_view file, const Limits& limits = {},
                        std::uint64_t piece = ~std::uint64_t{0}) {
  GgufOpener opener({.file_size = file.size(), .limits = limits});
  if (auto ok = testing::feed_steps(opener, as_bytes(file), piece); !ok) return propagate(ok);
  return opener.finish();
}

// Types of values by number.
constexpr std::uint32_t kU8 = 0, kI8 = 1, kU16 = 2, kI16 = 3, kU32 = 4, kI32 = 5, kF32 = 6,
                        kBool = 7, kString = 8, kArray = 9, kU64 = 10, kI64 = 11, kF64 = 12;

// One pair of each kind, and three tensors.
GgufBytes sample(std::uint32_t version = 3) {
  GgufBytes file(3, 6, version);
  file.key("general.architecture", kString).text("llama");
  file.key("llama.block_count", kU32).number(std::uint32_t{7});
  file.array("tokens", kString, 3).text("<s>").text("\xFF").text("");
  file.array("scores", kF32, 2).number(0.5f).number(-1.0f);
  file.array("charsmap", kU8, 4).number(std::uint32_t{0x04030201});
  file.array("empty", kI32, 0);
  file.tensor("blk.0.w", {64, 2}, 2, 0);  // q4_0: 4 blocks, 72 bytes
  file.tensor("blk.0.b", {3, 2}, 0, 96);  // f32: 24 bytes
  file.tensor("scalar", {}, 28, 128);     // f64
  file.pad().data(72).pad().data(24).pad().data(8);
  return file;
}

std::string describe(const NodeRef& node) {
  switch (node.kind()) {
    case Kind::kInt64:
      return std::to_string(*node.as_int64());
    case Kind::kBigInt:
      return node.as_bigint()->to_decimal();
    case Kind::kFloat64:
      return std::to_string(*node.as_double());
    case Kind::kBool:
      return *node.as_bool() ? "true" : "false";
    case Kind::kString:
      return "'" + std::string(*node.as_string()) + "'";
    case Kind::kBytes:
      return std::to_string(node.as_bytes()->size()) + " bytes";
    default:
      return std::string(kind_name(node.kind()));
  }
}

TEST_CASE("gguf: names, shapes, types and bytes of tensors") {
  for (const std::uint32_t version : {1u, 2u, 3u}) {
    CAPTURE(version);
    const std::string file = sample(version).bytes();
    const auto checkpoint = open(file);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    CHECK(checkpoint->catalog().format() == kGgufFormat);
    CHECK(checkpoint->catalog().notes().count() == 0);
    REQUIRE(checkpoint->tensor_count() == 3);
    const auto quantised = checkpoint->state().at("blk.0.w")->tensor();
    REQUIRE(quantised);
    CHECK(quantised->dtype() == DType::kOpaque);
    CHECK(quantised->block() == BlockType{"gguf.q4_0", 32, 18});
    CHECK(std::vector(quantised->shape().begin(), quantised->shape().end()) ==
          std::vector<std::uint64_t>{2, 64});
    const std::uint64_t begin = checkpoint->catalog().data_begin();
    CHECK(begin % 32 == 0);
    CHECK(quantised->raw_extent() == Extent{0, begin, 72});
    const auto plain = checkpoint->state().at("blk.0.b")->tensor();
    CHECK(plain->dtype() == DType::kF32);
    CHECK(std::vector(plain->shape().begin(), plain->shape().end()) ==
          std::vector<std::uint64_t>{2, 3});
    CHECK(plain->raw_extent() == Extent{0, begin + 96, 24});
    CHECK(checkpoint->state().at("scalar")->tensor()->raw_extent() == Extent{0, begin + 128, 8});
  }
}

TEST_CASE("gguf: key-value pairs are the metadata, with their types as labels") {
  struct Scalar {
    std::uint32_t type;
    std::string bytes;
    const char* label;
    const char* value;
  };
  const auto bytes = [](auto number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const Scalar scalars[] = {
      {kU8, bytes(std::uint8_t{255}), "gguf.u8", "255"},
      {kI8, bytes(std::int8_t{-128}), "gguf.i8", "-128"},
      {kU16, bytes(std::uint16_t{65535}), "gguf.u16", "65535"},
      {kI16, bytes(std::int16_t{-32768}), "gguf.i16", "-32768"},
      {kU32, bytes(~std::uint32_t{0}), "gguf.u32", "4294967295"},
      {kI32, bytes(std::int32_t{-5}), "gguf.i32", "-5"},
      {kF32, bytes(0.25f), "gguf.f32", "0.250000"},
      {kBool, std::string(1, '\1'), "", "true"},
      {kBool, std::string(1, '\0'), "", "false"},
      {kU64, bytes((std::uint64_t{1} << 63) - 1), "gguf.u64", "9223372036854775807"},
      {kU64, bytes(std::uint64_t{1} << 63), "gguf.u64", "9223372036854775808"},
      {kU64, bytes(~std::uint64_t{0}), "gguf.u64", "18446744073709551615"},
      {kI64, bytes(std::int64_t{-1}), "gguf.i64", "-1"},
      {kF64, bytes(0.125), "gguf.f64", "0.125000"},
  };
  for (const Scalar& scalar : scalars) {
    CAPTURE(scalar.value);
    GgufBytes file(0, 1);
    file.key("k", scalar.type);
    const auto checkpoint = open(file.bytes() + scalar.bytes);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    const NodeRef node = *checkpoint->metadata().at("k");
    CHECK(describe(node) == scalar.value);
    CHECK(node.label().value_or("") == scalar.label);
  }

  for (const std::uint32_t version : {1u, 3u}) {
    const std::string file = sample(version).bytes();
    const auto checkpoint = open(file);
    REQUIRE(checkpoint);
    const NodeRef metadata = checkpoint->metadata();
    CHECK(describe(*metadata.at("general.architecture")) == "'llama'");
    CHECK_FALSE(metadata.at("general.architecture")->label());
    CHECK(metadata.at("tokens")->label() == "gguf.array.string");
    CHECK(metadata.at("tokens")->size() == 3);
    CHECK(describe(*metadata.at("tokens/0")) == "'<s>'");
    CHECK(describe(*metadata.at("tokens/1")) == "1 bytes");  // not UTF-8
    CHECK(describe(*metadata.at("tokens/2")) == "''");
    CHECK(metadata.at("scores")->label() == "gguf.array.f32");
    CHECK(describe(*metadata.at("scores/1")) == "-1.000000");
    CHECK(metadata.at("charsmap")->label() == "gguf.array.u8");
    CHECK(describe(*metadata.at("charsmap")) == "4 bytes");
    CHECK(metadata.at("empty")->label() == "gguf.array.i32");
    CHECK(metadata.at("empty")->size() == 0);
    CHECK(metadata.size() == 6);
  }
}

TEST_CASE("gguf: bytes are asked for once, in growing windows") {
  // A vocabulary of 5 MB, then one tensor.
  GgufBytes file(1, 1);
  file.array("tokens", kString, 50'000);
  for (int i = 0; i < 50'000; ++i) file.text(std::string(92, static_cast<char>('a' + i % 26)));
  file.tensor("w", {4}, 0, 0).pad().data(16);
  const std::string& bytes = file.bytes();
  GgufOpener opener({.file_size = bytes.size()});
  std::vector<std::uint64_t> ends;
  while (!opener.needs().empty()) {
    // The pieces of a window are neighbours, so they are one need.
    REQUIRE(opener.needs().size() == 1);
    const Extent window = opener.needs().front();
    CHECK(window.offset == (ends.empty() ? 0 : ends.back()));
    ends.push_back(window.offset + window.length);
    REQUIRE(opener.feed(window, testing::bytes_at(as_bytes(bytes), window)));
  }
  CHECK(ends == std::vector<std::uint64_t>{64 << 10, 512 << 10, 4 << 20, bytes.size()});
  const auto checkpoint = opener.finish();
  REQUIRE(checkpoint);
  CHECK(checkpoint->metadata().at("tokens")->size() == 50'000);

  // A length that tells how much is needed skips windows.
  GgufBytes numbers(0, 1);
  numbers.array("ids", kI32, 1'000'000);
  const std::string all =
      numbers.bytes() + std::string(4'000'000, '\1') + std::string(9'000'000, '\0');
  GgufOpener second({.file_size = all.size()});
  int requests = 0;
  while (!second.needs().empty()) {
    const Extent window = second.needs().front();
    ++requests;
    REQUIRE(second.feed(window, testing::bytes_at(as_bytes(all), window)));
  }
  CHECK(requests == 2);
}

TEST_CASE("gguf: a header of several windows is read on where the last one ended") {
  GgufBytes file(0, 9000);
  for (int i = 0; i < 9000; ++i) file.key("k" + std::to_string(i), kU32).number(i);
  REQUIRE(file.bytes().size() > 2 * kFirstReadBytes);
  const auto checkpoint = open(file.bytes());
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  CHECK(checkpoint->metadata().size() == 9000);
  CHECK(checkpoint->metadata().at("k8999")->as_int64() == 8999);
}

TEST_CASE("gguf: the verdict does not depend on how the bytes come") {
  const std::string file = sample().bytes();
  for (std::size_t cut = 0; cut <= file.size(); cut += 3) {
    const std::string_view part = std::string_view(file).substr(0, cut);
    const auto steps = open(part, {}, 7);
    AnyOpener whole({.file_size = part.size()});
    auto fed = testing::feed_whole(whole, as_bytes(part));
    Result<Checkpoint> opened = fed ? whole.finish() : propagate(fed);
    REQUIRE(steps.has_value() == opened.has_value());
    // A file too short for the magic is nothing that anybody knows.
    if (!steps && cut >= 4) CHECK(steps.error() == opened.error());
  }
}

// What is wrong with a file, and how that is said.
struct Bad {
  const char* what;
  std::function<std::string()> file;
  ErrorCode code;
  const char* path;
  const char* says;
};

GgufBytes one_tensor() { return GgufBytes(1, 0); }
constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;

TEST_CASE("gguf: what is refused, and how it is said") {
  const auto padded = [](GgufBytes file, std::size_t bytes) {
    return file.pad().data(bytes).bytes();
  };
  const ErrorCode invalid = ErrorCode::kForeignInvalid;
  const Bad bad[] = {
      {"big-endian", [] { return "GGUF" + std::string("\0\0\0\3", 4) + std::string(60, '\0'); },
       ErrorCode::kUnsupportedVersion, "", "big-endian"},
      {"a later version", [] { return GgufBytes(0, 0, 4).bytes(); }, ErrorCode::kUnsupportedVersion,
       "", "version 4, and 1 to 3 are known"},
      {"version 0", [] { return GgufBytes(0, 0, 0).bytes(); }, ErrorCode::kUnsupportedVersion, "",
       "version 0"},
      {"cut in the counts", [] { return GgufBytes(0, 0).bytes().substr(0, 20); },
       ErrorCode::kTruncated, "", "copy or download it again"},
      // CVE-2024-21802 and others: counts believed.
      {"more pairs than bytes", [] { return GgufBytes(0, ~std::uint64_t{0}).bytes(); }, invalid, "",
       "claims 18446744073709551615 key-value pairs and has only 0 bytes left"},
      {"more tensors than bytes", [&] { return padded(GgufBytes(std::uint64_t{1} << 61, 0), 64); },
       invalid, "", "2305843009213693952 tensors"},
      // CVE-2024-23605, CVE-2024-21836, CVE-2024-23496: lengths that wrap.
      {"a key without end", [] { return GgufBytes(0, 1).size(~std::uint64_t{0}).data(40).bytes(); },
       ErrorCode::kTruncated, "", "goes on for 18446744073709551615 bytes"},
      {"a string without end",
       [] { return GgufBytes(0, 1).key("k", kString).size(~std::uint64_t{0} - 7).bytes(); },
       ErrorCode::kTruncated, "(metadata)/k", "goes on for"},
      {"an array whose size wraps",
       [] {
         return GgufBytes(0, 1).array("k", kU64, (std::uint64_t{1} << 61) + 1).data(40).bytes();
       },
       invalid, "(metadata)/k", "claims 2305843009213693953 elements"},
      {"more strings than bytes",
       [] { return GgufBytes(0, 1).array("k", kString, 6).data(40).bytes(); }, invalid,
       "(metadata)/k", "claims 6 elements and has only 40 bytes left"},
      {"an array of arrays", [] { return GgufBytes(0, 1).array("k", kArray, 1).data(40).bytes(); },
       invalid, "(metadata)/k", "array of arrays"},
      {"a type of values that there is not",
       [] { return GgufBytes(0, 1).key("k", 13).data(40).bytes(); }, invalid, "(metadata)/k",
       "the type 13"},
      {"a type of elements that there is not",
       [] { return GgufBytes(0, 1).array("k", 13, 1).data(40).bytes(); }, invalid, "(metadata)/k",
       "the type 13"},
      {"a bool of 2", [] { return GgufBytes(0, 1).key("k", kBool).number('\2').data(40).bytes(); },
       invalid, "(metadata)/k", "a bool is 2"},
      {"a bool of 255 in an array",
       [] { return GgufBytes(0, 1).array("k", kBool, 2).number('\1').number('\xFF').bytes(); },
       invalid, "(metadata)/k", "a bool is 255"},
      {"a key that is not UTF-8",
       [] { return GgufBytes(0, 1).key("a\xFF", kU8).number('\1').bytes(); }, invalid, "",
       "a key is not UTF-8"},
      {"a key twice",
       [] { return GgufBytes(0, 2).key("k", kU8).number('\1').key("k", kI8).number('\2').bytes(); },
       invalid, "(metadata)/k", "two key-value pairs have the same key"},
      {"an alignment of 0",
       [] {
         return GgufBytes(0, 1).key("general.alignment", kU32).number(std::uint32_t{0}).bytes();
       },
       invalid, "(metadata)/general.alignment", "alignment is 0, which is no power of two"},
      {"an alignment of 24",
       [] {
         return GgufBytes(0, 1).key("general.alignment", kU32).number(std::uint32_t{24}).bytes();
       },
       invalid, "(metadata)/general.alignment", "alignment is 24"},
      {"an alignment of another type",
       [] {
         return GgufBytes(0, 1).key("general.alignment", kU64).number(std::uint64_t{32}).bytes();
       },
       invalid, "(metadata)/general.alignment", "must be a u32, and is of the type u64"},
      {"a removed type", [&] { return padded(one_tensor().tensor("w", {32}, 4, 0), 64); }, invalid,
       "w", "type q4_2, which ggml has removed"},
      {"another removed type", [&] { return padded(one_tensor().tensor("w", {32}, 38, 0), 64); },
       invalid, "w", "type iq4_nl_8_8, which ggml has removed"},
      {"a type of the future", [&] { return padded(one_tensor().tensor("w", {32}, 43, 0), 64); },
       invalid, "w", "type 43, which this version does not know"},
      {"more axes than any tensor has",
       [&] { return padded(one_tensor().text("w").number(std::uint32_t{65}), 999); },
       ErrorCode::kLimitExceeded, "w", "65 axes"},
      {"2^32 - 1 axes", [&] { return padded(one_tensor().text("w").number(~std::uint32_t{0}), 9); },
       ErrorCode::kLimitExceeded, "w", "axes"},
      // CVE-2025-53630, CVE-2026-27940 and others: products of axes that wrap.
      {"elements beyond 2^64",
       [&] {
         return padded(one_tensor().tensor("w", {kHuge, 2}, 0, 0), 64);
       },
       invalid, "w", ""},
      // llama.cpp#27203
      {"(INT64_MAX, 2)",
       [&] {
         return padded(one_tensor().tensor("w", {kHuge - 1, 2}, 0, 0), 64);
       },
       invalid, "w", ""},
      {"bytes beyond 2^63",
       [&] {
         return padded(one_tensor().tensor("w", {kHuge >> 2, 1}, 0, 0), 64);
       },
       invalid, "w", ""},
      {"blocks that do not divide the last axis",
       [&] {
         return padded(one_tensor().tensor("w", {33, 32}, 2, 0), 999);
       },
       invalid, "w", ""},
      {"blocks without an axis", [&] { return padded(one_tensor().tensor("w", {}, 2, 0), 64); },
       invalid, "w", ""},
      {"a gap at the beginning", [&] { return padded(one_tensor().tensor("w", {4}, 0, 32), 64); },
       invalid, "w", "begins at 32 of the data, and the one before it ends at 0"},
      {"a gap",
       [&] { return padded(GgufBytes(2, 0).tensor("a", {4}, 0, 0).tensor("b", {4}, 0, 64), 96); },
       invalid, "b", "begins at 64 of the data, and the one before it ends at 32"},
      {"an overlap",
       [&] { return padded(GgufBytes(2, 0).tensor("a", {4}, 0, 0).tensor("b", {4}, 0, 0), 96); },
       invalid, "b", "begins at 0 of the data, and the one before it ends at 32"},
      {"no padding between tensors",
       [&] { return padded(GgufBytes(2, 0).tensor("a", {4}, 0, 0).tensor("b", {4}, 0, 16), 96); },
       invalid, "b", "begins at 16"},
      {"padding of another alignment",
       [&] {
         return padded(GgufBytes(2, 1)
                           .key("general.alignment", kU32)
                           .number(std::uint32_t{64})
                           .tensor("a", {4}, 0, 0)
                           .tensor("b", {4}, 0, 32),
                       96);
       },
       invalid, "b", "begins at 32 of the data, and the one before it ends at 64"},
      // CVE-2026-7482: reads past the end of the file.
      {"a tensor past the end", [&] { return padded(one_tensor().tensor("w", {5}, 0, 0), 16); },
       ErrorCode::kTruncated, "w", "ends before the end of the tensor"},
      {"a petabyte in a small file",
       [&] { return padded(one_tensor().tensor("w", {std::uint64_t{1} << 48}, 0, 0), 16); },
       ErrorCode::kTruncated, "w", "ends before the end of the tensor"},
      {"sizes whose sum passes 2^64",
       [&] {
         GgufBytes file(4, 0);
         for (std::uint64_t k = 0; k < 4; ++k) {
           file.tensor(std::string(1, static_cast<char>('a' + k)), {kHuge >> 3}, 0,
                       k * (kHuge >> 1));
         }
         return padded(std::move(file), 64);
       },
       invalid, "d", "the tensor's end passes 2^64"},
      // llama.cpp#24759: the padding wraps.
      {"an end that wraps when it is padded",
       [&] {
         return padded(GgufBytes(2, 1)
                           .key("general.alignment", kU32)
                           .number(kU32 << 29)
                           .tensor("a", {0}, 0, 0)
                           .tensor("b", {4}, 0, ~std::uint64_t{0} - 31),
                       96);
       },
       invalid, "b", "begins at 18446744073709551584"},
      {"a name twice",
       [&] { return padded(GgufBytes(2, 0).tensor("w", {4}, 0, 0).tensor("w", {4}, 0, 32), 64); },
       invalid, "w", "two tensors have the same name"},
      {"a name that is not UTF-8",
       [&] { return padded(one_tensor().tensor("\xC0", {4}, 0, 0), 64); }, invalid, "",
       "a tensor's name is not UTF-8"},
  };
  for (const Bad& row : bad) {
    CAPTURE(row.what);
    const std::string file = row.file();
    const auto checkpoint = open(file);
    REQUIRE_FALSE(checkpoint);
    const Error& error = checkpoint.error();
    INFO(error.describe());
    CHECK(to_string(error.code) == to_string(row.code));
    CHECK(error.path == row.path);
    CHECK(error.message.find(row.says) != std::string::npos);
    CHECK((error.offset <= file.size() || error.offset == Error::kNoOffset));
  }
}

TEST_CASE("gguf: what is odd and opens") {
  // The padding after the last tensor may be missing; the file's end is its data's.
  CHECK(open(GgufBytes(1, 0).tensor("w", {4}, 0, 0).pad().data(16).bytes()));
  // The padding may be there.
  const auto padded = open(GgufBytes(1, 0).tensor("w", {8}, 0, 0).pad().data(32).bytes());
  REQUIRE(padded);
  CHECK(padded->catalog().notes().count() == 0);
  // Neither tensors nor pairs, and no padding.
  CHECK(open(GgufBytes(0, 0).bytes()));
  // Empty tensors take no bytes, also where the data would begin after the file's end.
  CHECK(open(GgufBytes(2, 0).tensor("a", {0, 3}, 0, 0).tensor("b", {kHuge, 0}, 2, 0).bytes()));
  // 5 axes, as in models of videos: ggml does not read them, but programs in Python write them.
  CHECK(open(GgufBytes(1, 0).tensor("w", {1, 1, 2, 1, 2}, 0, 0).pad().data(16).bytes()));
  // Alignments of 1 and 2^31.
  GgufBytes tight(2, 1);
  tight.key("general.alignment", kU32).number(std::uint32_t{1});
  tight.tensor("a", {3}, 24, 0).tensor("b", {2}, 24, 3).data(5);
  const auto checkpoint = open(tight.bytes());
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  CHECK(checkpoint->state().at("b")->tensor()->raw_extent()->offset == tight.bytes().size() - 2);
  GgufBytes wide(0, 1);
  wide.key("general.alignment", kU32).number(std::uint32_t{1} << 31);
  CHECK(open(wide.bytes()));
  // Bytes after the last tensor are no part of the model.
  const auto more = open(GgufBytes(1, 0).tensor("w", {4}, 0, 0).pad().data(16 + 16 + 5).bytes());
  REQUIRE(more);
  REQUIRE(more->catalog().notes().count() == 1);
  CHECK(more->catalog().notes().listed()[0].message ==
        "the file goes on for 5 bytes after its last tensor");
}

TEST_CASE("gguf: limits") {
  const std::string file = sample().bytes();
  const auto refusal = [&](const Limits& limits) {
    const auto checkpoint = open(file, limits);
    REQUIRE_FALSE(checkpoint);
    CHECK(to_string(checkpoint.error().code) == to_string(ErrorCode::kLimitExceeded));
    return checkpoint.error().message;
  };
  // The header ends where the last tensor's offset does.
  const std::uint64_t header = file.find("scalar") + 6 + 4 + 4 + 8;
  Limits limits;
  limits.gguf_header_bytes = header;
  CHECK(open(file, limits));
  limits.gguf_header_bytes = header - 1;
  CHECK(refusal(limits).find("Limits::gguf_header_bytes") != std::string::npos);
  limits = {};
  limits.nodes = 15;  // 2 roots, 3 tensors, 6 pairs, 3 + 2 elements
  CHECK(refusal(limits).find("Limits::nodes") != std::string::npos);
  limits.nodes = 16;
  CHECK(open(file, limits));
  limits.nodes = 2;  // before its elements are looked at
  CHECK(refusal(limits).find("the array has 3 elements") != std::string::npos);
  limits = {};
  limits.rank = 1;
  CHECK(refusal(limits).find("Limits::rank") != std::string::npos);
  limits = {};
  limits.index_bytes = 64;  // two chunk records
  CHECK(refusal(limits).find("Limits::index_bytes") != std::string::npos);
}

TEST_CASE("gguf: dotted names nest on request") {
  const std::string file = sample().bytes();
  GgufOpener opener({.file_size = file.size(), .nest = true});
  REQUIRE(testing::feed_whole(opener, as_bytes(file)));
  const auto checkpoint = opener.finish();
  REQUIRE(checkpoint);
  CHECK(checkpoint->state().at("blk/0/w")->kind() == Kind::kTensor);
  CHECK(checkpoint->metadata().at("llama.block_count"));
}

TEST_CASE("gguf: a file of 14 GB begins with what could be the length of a JSON header") {
  const std::string front = sample().bytes();
  CHECK(looks_like_gguf(as_bytes(front), std::uint64_t{1} << 40));
  AnyOpener opener({.file_size = std::uint64_t{1} << 40});
  const std::string first = front + std::string(kFirstReadBytes - front.size(), '\0');
  REQUIRE(opener.feed({0, 0, first.size()}, as_bytes(first)));
  const auto checkpoint = opener.finish();
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  CHECK(checkpoint->catalog().format() == kGgufFormat);
}

// File number `number` of a model in `count` files, each with one tensor; more key-value pairs may
// follow.
std::string part_of(std::uint16_t number, std::uint16_t count, std::string_view tensor,
                    std::string_view key = {}) {
  GgufBytes file(1, key.empty() ? 2 : 3);
  file.key("split.no", kU16).number(number).key("split.count", kU16).number(count);
  if (!key.empty()) file.key(key, kU8).number('\7');
  return file.tensor(tensor, {4}, 0, 0).pad().data(16).bytes();
}

// Opens `files`, the first of them under `name`. Those that are wanted have these names; an empty
// one is missing.
Result<Checkpoint> open_set(const std::vector<std::string>& files, std::string_view name,
                            std::vector<std::string>* wanted = nullptr) {
  GgufOpener opener({.file_size = files[0].size(), .name = name});
  while (!opener.wants().empty() || !opener.needs().empty()) {
    if (!opener.wants().empty()) {
      const WantedFile want = opener.wants().front();
      if (wanted != nullptr) wanted->push_back(want.name);
      const bool is_there = want.number < files.size() && !files[want.number].empty();
      const auto size = is_there ? Result<std::uint64_t>(files[want.number].size())
                                 : fail(ErrorCode::kFileMissing, "there is no such file");
      if (auto ok = opener.answer(want.number, size); !ok) return propagate(ok);
      continue;
    }
    const Extent extent = opener.needs().front();
    if (auto ok = opener.feed(extent, testing::bytes_at(as_bytes(files[extent.file]), extent));
        !ok) {
      return propagate(ok);
    }
  }
  return opener.finish();
}

std::string names_of(const Checkpoint& checkpoint) {
  std::string names;
  for (std::uint32_t i = 0; i < checkpoint.state().size(); ++i) {
    names += std::string(checkpoint.state().key(i).text) + ' ';
  }
  return names;
}

TEST_CASE("gguf: a model in several files") {
  const std::vector<std::string> files = {part_of(0, 3, "a", "k"), part_of(1, 3, "b"),
                                          part_of(2, 3, "c", "k")};
  std::vector<std::string> wanted;
  const auto whole = open_set(files, "m-00001-of-00003.gguf", &wanted);
  REQUIRE_MESSAGE(whole, whole.error().describe());
  CHECK(wanted == std::vector<std::string>{"m-00002-of-00003.gguf", "m-00003-of-00003.gguf"});
  CHECK(names_of(*whole) == "a b c ");
  CHECK(whole->catalog().notes().count() == 0);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(whole->tensor(i).raw_extent()->file == i);
  // The pairs of the first file; those of the others that are not about the files.
  const NodeRef metadata = whole->metadata();
  CHECK(metadata.size() == 4);
  CHECK(metadata.at("k")->as_int64() == 7);
  REQUIRE(metadata.at("m-00003-of-00003.gguf"));
  CHECK(metadata.at("m-00003-of-00003.gguf")->size() == 1);
  CHECK(metadata.at("m-00003-of-00003.gguf/k")->label() == "gguf.u8");

  // What cannot be used of the others is told, and the rest opens.
  struct Lost {
    std::string second;
    ErrorCode code;
  };
  const Lost lost[] = {{"", ErrorCode::kFileMissing},
                       {files[1].substr(0, 60), ErrorCode::kTruncated},
                       {files[1].substr(0, 3), ErrorCode::kTruncated},
                       {files[2], ErrorCode::kForeignInvalid},
                       {part_of(1, 4, "b"), ErrorCode::kForeignInvalid},
                       {sample().bytes(), ErrorCode::kForeignInvalid},
                       {std::string(99, 'x'), ErrorCode::kForeignInvalid}};
  for (const Lost& row : lost) {
    CAPTURE(row.second.size());
    const auto rest = open_set({files[0], row.second, files[2]}, "m-00001-of-00003.gguf");
    REQUIRE_MESSAGE(rest, rest.error().describe());
    CHECK(names_of(*rest) == "a c ");
    const auto& problem = rest->catalog().files()[1].problem;
    REQUIRE(problem);
    CHECK(to_string(problem->code) == to_string(row.code));
  }

  const auto twice = open_set({files[0], part_of(1, 3, "a"), files[2]}, "m-00001-of-00003.gguf");
  REQUIRE_FALSE(twice);
  CHECK(twice.error().message == "two tensors have the same name");

  const auto note_of = [](const Result<Checkpoint>& checkpoint) {
    REQUIRE(checkpoint);
    CHECK(checkpoint->state().size() == 1);
    REQUIRE(checkpoint->catalog().notes().count() == 1);
    return checkpoint->catalog().notes().listed()[0].message;
  };
  for (const char* name : {"", "m.gguf", "m-00001-of-00004.gguf", "m-00002-of-00003.gguf"}) {
    CHECK(note_of(open_set(files, name)).find("its name does not end with -00001-of-00003.gguf") !=
          std::string::npos);
  }
  CHECK(note_of(open_set({files[1]}, "m-00002-of-00003.gguf")) ==
        "this is file 2 of the 3 of a model; open the first for the tensors of all");
  // A set of one file.
  const auto only = open_set({part_of(0, 1, "a")}, "m-00001-of-00001.gguf");
  REQUIRE(only);
  CHECK(only->catalog().notes().count() == 0);
}

}  // namespace
}  // namespace espalier
