// ONNX models: what opens as what, what is refused and how it is said, and what is asked for.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/feed.h"
#include "support/proto_bytes.h"
#include <doctest/doctest.h>

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/onnx/element_maker.h"
#include "espalier/foreign/onnx/format.h"
#include "espalier/foreign/onnx/model_copy.h"
#include "espalier/foreign/onnx/opener.h"
#include "espalier/format/file_set.h"
#include "espalier/notes.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

using namespace std::string_literals;
using testing::proto_bytes;
using testing::proto_fixed;
using testing::proto_number;
using testing::proto_varint;

constexpr std::uint64_t kFloat = 1, kInt8 = 3, kInt64 = 7, kString = 8, kInt4 = 22;

// A model with these fields in its graph.
std::string model(std::string_view graph) { return proto_number(1, 8) + proto_bytes(7, graph); }
// The fields of a tensor but its numbers.
std::string tensor(std::string_view name, std::uint64_t type,
                   std::initializer_list<std::uint64_t> shape) {
  std::string fields;
  for (const std::uint64_t axis : shape) fields += proto_number(1, axis);
  return fields + proto_number(2, type) + proto_bytes(8, name);
}
std::string raw(std::size_t bytes) { return proto_bytes(9, std::string(bytes, '\x01')); }
// A model with one initializer of these fields.
std::string one(std::string_view fields) { return model(proto_bytes(5, fields)); }
std::string pair(std::string_view key, std::string_view value) {
  return proto_bytes(13, proto_bytes(1, key) + proto_bytes(2, value));
}
std::string external(std::string_view location) {
  return tensor("w", kFloat, {2}) + proto_number(14, 1) + pair("location", location);
}

struct Sibling {
  std::string_view name;
  std::uint64_t size;
};

Result<Checkpoint> open(std::string_view file, const Limits& limits = {},
                        std::initializer_list<Sibling> beside = {},
                        std::uint64_t piece = ~std::uint64_t{0}) {
  OnnxOpener opener({.file_size = file.size(), .limits = limits});
  while (!opener.needs().empty() || !opener.wants().empty()) {
    if (!opener.wants().empty()) {
      const WantedFile wanted = opener.wants().front();
      Result<std::uint64_t> size = fail(ErrorCode::kFileMissing, "there is none");
      for (const Sibling& sibling : beside) {
        if (sibling.name == wanted.name) size = sibling.size;
      }
      if (auto ok = opener.answer(wanted.number, size); !ok) return propagate(ok);
      continue;
    }
    Extent extent = opener.needs().front();
    extent.length = std::min(extent.length, piece);
    if (auto ok = opener.feed(extent, testing::bytes_at(as_bytes(file), extent)); !ok) {
      return propagate(ok);
    }
  }
  return opener.finish();
}

std::vector<std::string> keys(const Checkpoint& checkpoint) {
  std::vector<std::string> all;
  for (const auto [key, child] : checkpoint.state()) all.emplace_back(key.text);
  return all;
}

TEST_CASE("onnx: what is in place lies where it is in the file") {
  const std::string file =
      model(proto_bytes(5, tensor("raw", kFloat, {2}) + proto_bytes(9, "abcdefgh")) +
            proto_bytes(5, tensor("packed", kFloat, {2}) + proto_bytes(4, "ijklmnop")) +
            proto_bytes(5, tensor("external", kInt8, {3}) + proto_number(14, 1) +
                               pair("location", "./w.bin") + pair("offset", "5")) +
            proto_bytes(5, tensor("empty", kFloat, {0, 3})));
  for (const std::uint64_t piece : {~std::uint64_t{0}, std::uint64_t{1}}) {
    const auto checkpoint = open(file, {}, {{"w.bin", 8}}, piece);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    CHECK(checkpoint->catalog().format() == kOnnxFormat);
    CHECK(keys(*checkpoint) == std::vector<std::string>{"raw", "packed", "external", "empty"});
    CHECK(checkpoint->state().at("raw")->tensor()->raw_extent() ==
          Extent{0, file.find("abcdefgh"), 8});
    CHECK(checkpoint->state().at("packed")->tensor()->raw_extent() ==
          Extent{0, file.find("ijklmnop"), 8});
    CHECK(checkpoint->state().at("external")->tensor()->raw_extent() == Extent{1, 5, 3});
    CHECK(checkpoint->catalog().notes().count() == 0);
  }
}

TEST_CASE("onnx: no bytes of tensors are asked for") {
  std::string graph;
  for (const char* name : {"a", "b", "c"}) {
    graph += proto_bytes(5, tensor(name, kInt8, {3 << 20}) + raw(3 << 20));
  }
  // As numbers of other fields, but too many to be converted at once.
  graph += proto_bytes(
      5, tensor("typed", kInt8, {1 << 20}) + proto_bytes(5, std::string(1 << 20, '\x07')));
  const std::string file = model(graph);
  OnnxOpener opener({.file_size = file.size()});
  std::uint64_t asked = 0;
  while (!opener.needs().empty()) {
    const Extent need = opener.needs().front();
    asked += need.length;
    REQUIRE(opener.feed(need, testing::bytes_at(as_bytes(file), need)));
  }
  const auto checkpoint = opener.finish();
  REQUIRE(checkpoint);
  CHECK(checkpoint->tensor_count() == 4);
  CHECK(asked <= 5 * kFirstReadBytes);
  // A request waits for the one before it: a short file on another machine is read as a whole.
  OnnxOpener remote({.file_size = file.size(), .is_remote = true});
  REQUIRE(remote.feed({0, 0, kFirstReadBytes}, as_bytes(file).first(kFirstReadBytes)));
  std::uint64_t left = 0;
  for (const Extent& need : remote.needs()) left += need.length;
  CHECK(left > file.size() - 2 * kFirstReadBytes - (3 << 20));
}

// The bytes of `elements` made of `fields`, fed in pieces of each size.
std::string make(OnnxElements elements, std::size_t length, const std::string& fields) {
  elements.from = {0, 0, fields.size()};
  std::string first;
  for (std::size_t piece = fields.size(); piece > 0; --piece) {
    std::string out(length, '\0');
    const auto machine =
        OnnxElementMaker(elements).start({reinterpret_cast<std::byte*>(out.data()), out.size()});
    Result<void> ok;
    while (ok && !machine->needs().empty()) {
      Extent need = machine->needs().front();
      need.length = std::min<std::uint64_t>(need.length, piece);
      ok = machine->feed(need, testing::bytes_at(as_bytes(fields), need));
    }
    if (ok) ok = machine->finish();
    if (!ok) out = ok.error().message;
    if (first.empty()) first = out;
    CHECK(out == first);
  }
  return first;
}

TEST_CASE("onnx: numbers in fields become elements, however they are cut") {
  const OnnxElements i8{.field = 5,
                        .numbers = OnnxNumbers::kInt32s,
                        .count = 4,
                        .dtype = DType::kI8,
                        .from_bits = 8,
                        .to_bits = 8};
  const auto negative = [](std::int64_t value) {
    return proto_varint(static_cast<std::uint64_t>(value));
  };
  // Packed, one by one, with a field of another number among them.
  CHECK(make(i8, 4,
             proto_bytes(5, "\x01"s + negative(-2)) + proto_bytes(8, "a name\x28") +
                 proto_number(5, 3) + proto_bytes(5, "") + proto_bytes(5, "\x7F")) ==
        "\x01\xFE\x03\x7F");
  // A negative number of 32 bits.
  CHECK(make(i8, 4, proto_bytes(5, "\x01\x02\x03" + proto_varint(0xFFFFFFFF))) == "\1\2\3\xFF");
  CHECK(make(i8, 4, proto_bytes(5, "\x01\x02\x03")) ==
        "this tensor is damaged: it has 3 numbers and needs 4");
  CHECK(make(i8, 4, proto_bytes(5, "\x01\x02\x03\x04\x05")) ==
        "this tensor is damaged: it has more than the 4 numbers that it needs");
  CHECK(make(i8, 4, proto_bytes(5, "\x01\x02\x03\x84")) ==
        "this tensor is damaged: one of its numbers is cut");
  CHECK(make(i8, 4, proto_bytes(5, "\x01\x02\x03\x04") + "\x2A") ==
        "this tensor is damaged: the last of its numbers is cut");
  struct Range {
    OnnxNumbers numbers;
    DType dtype;
    std::int64_t least, most;
    bool has_below = true, has_above = true;
  };
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const Range& range : {
           Range{OnnxNumbers::kInt32s, DType::kBool, 0, 1},
           Range{OnnxNumbers::kInt32s, DType::kI8, -128, 127},
           Range{OnnxNumbers::kInt32s, DType::kU8, 0, 255},
           Range{OnnxNumbers::kInt32s, DType::kI16, -32768, 32767},
           Range{OnnxNumbers::kInt32s, DType::kU16, 0, 65535},
           Range{OnnxNumbers::kInt32s, DType::kF16, -32768, 65535},
           Range{OnnxNumbers::kInt32s, DType::kF8E5M2, -128, 255},
           Range{OnnxNumbers::kInt32s, DType::kI32, -(std::int64_t{1} << 31),
                 (std::int64_t{1} << 31) - 1, true, false},
           Range{OnnxNumbers::kUint64s, DType::kU32, 0, (std::int64_t{1} << 32) - 1},
           Range{OnnxNumbers::kInt64s, DType::kI64, kLeast, kMost, false, false},
       }) {
    CAPTURE(dtype_name(range.dtype));
    const std::uint32_t bits = dtype_bits(range.dtype);
    const OnnxElements single{.field = 5,
                              .numbers = range.numbers,
                              .count = 1,
                              .dtype = range.dtype,
                              .from_bits = bits,
                              .to_bits = bits};
    for (const std::int64_t value : {range.least, range.most}) {
      const std::string bytes(reinterpret_cast<const char*>(&value), bits / 8);
      CHECK(make(single, bits / 8, proto_bytes(5, negative(value))) == bytes);
    }
    const auto is_refused = [&](std::int64_t value) {
      return make(single, bits / 8, proto_bytes(5, negative(value))).find("does not fit") !=
             std::string::npos;
    };
    if (range.has_below) CHECK(is_refused(range.least - 1));
    if (range.has_above) CHECK(is_refused(range.most + 1));
  }
  // 6 bits each, and bytes that are several elements.
  OnnxElements narrow{.field = 5,
                      .numbers = OnnxNumbers::kInt32s,
                      .count = 4,
                      .dtype = DType::kF6E2M3FN,
                      .from_bits = 6,
                      .to_bits = 8};
  CHECK(make(narrow, 3, proto_bytes(5, "\x01\x02\x03\x3F")) == "\x81\x30\xFC");
  CHECK(make(narrow, 3, proto_bytes(5, "\x01\x02\x03\x40")).find("is 64, which does not fit") !=
        std::string::npos);
  narrow = {.count = 2, .dtype = DType::kI4, .to_bits = 4};
  CHECK(make(narrow, 3, "\x21\xF3") == "\x01\x02\x03");
}

TEST_CASE("onnx: what is refused, and how it is said") {
  struct Bad {
    const char* what;
    std::string file;
    const char* path;
    const char* says;
    ErrorCode code = ErrorCode::kForeignInvalid;
  };
  const std::string w = tensor("w", kFloat, {2});
  const std::string good = proto_bytes(5, w + raw(8));
  std::string nested = good;
  for (int i = 0; i < 32; ++i) nested = proto_bytes(1, proto_bytes(5, proto_bytes(6, nested)));
  const Bad bad[] = {
      {"no graph", proto_number(1, 8), "", "the model has no graph"},
      {"two graphs", model(good) + proto_bytes(7, good), "", "field 7 twice"},
      {"a cut file", model(good).substr(0, 20), "", "after the end of the file",
       ErrorCode::kTruncated},
      {"a field beyond its message", model(good + "\x2A\x7F"), "", "after the end of its message"},
      {"half a field", model(good + "\x2A"), "", "after the end of its message"},
      {"a name of a node twice", model(proto_bytes(1, proto_bytes(3, "a") + proto_bytes(3, "b"))),
       "", "field 3 twice"},
      {"an attribute that is cut", model(proto_bytes(1, proto_bytes(5, "\x2A\x01"))), "",
       "after the end of its message"},
      {"a group", model(good + "\x2B"), "", "no field where one should be"},
      {"field 0", model(good + "\x02\x01x"), "", "no field where one should be"},
      {"a number in place of a name", one(proto_number(8, 1) + proto_number(2, 1)), "",
       "field 8 of a message has another type"},
      {"a name twice", one(w + proto_bytes(8, "v") + raw(8)), "", "field 8 twice"},
      {"raw_data twice", one(w + raw(8) + raw(8)), "", "field 9 twice"},
      {"raw and typed", one(w + proto_bytes(4, "12345678") + raw(8)), "", "its numbers twice"},
      {"typed and raw", one(w + raw(8) + proto_bytes(4, "12345678")), "", "its numbers twice"},
      {"two typed fields", one(w + proto_bytes(4, "12345678") + proto_bytes(5, "\1\2")), "",
       "its numbers twice"},
      {"raw and external", one(external("w.bin") + raw(8)), "", "its numbers twice"},
      {"another typed field", one(w + proto_bytes(5, "\1\2")), "", "is not that of its type"},
      {"strings of floats", one(w + proto_bytes(6, "a") + proto_bytes(6, "b")), "",
       "is not that of its type"},
      {"raw strings", one(tensor("s", kString, {2}) + raw(8)), "", "a string for each"},
      {"too few strings", one(tensor("s", kString, {2}) + proto_bytes(6, "a")), "",
       "a string for each"},
      {"a segment", one(w + proto_bytes(3, "") + raw(8)), "", "is a segment of a larger one",
       ErrorCode::kUnsupportedFeature},
      {"no type", one(proto_bytes(8, "w") + raw(8)), "", "the type 0, which is none"},
      {"a type of the future", one(tensor("w", 29, {2}) + raw(8)), "",
       "type 29, which this version does not know"},
      {"a negative axis", one(tensor("w", kFloat, {~std::uint64_t{0}}) + raw(8)), "",
       "a dimension is negative"},
      {"too few bytes", one(w + raw(7)), "w", "has 7 bytes, and its shape and type need 8"},
      {"too many bytes", one(w + raw(9)), "w", "has 9 bytes, and its shape and type need 8"},
      {"too few packed bytes", one(w + proto_bytes(4, "1234")), "w", "has 4 bytes"},
      {"too many elements", one(tensor("w", kFloat, {1u << 31, 1u << 31, 4}) + raw(8)), "w",
       "2^61 bytes"},
      {"more numbers than bytes",
       one(tensor("w", kInt8, {std::uint64_t{1} << 33}) + proto_bytes(5, "\1\2")), "w",
       "needs 8589934592 numbers and has only 4 bytes"},
      {"i8 300", one(tensor("w", kInt8, {1}) + proto_number(5, 300)), "w",
       "is 300, which does not fit the dtype i8"},
      {"an initializer twice", model(good + good), "w", "two values with this name"},
      {"a name that is not UTF-8", one(tensor("\xFF", kFloat, {2}) + raw(8)), "", "UTF-8"},
      {"a property twice",
       model(good) + proto_bytes(14, proto_bytes(1, "k")) + proto_bytes(14, proto_bytes(1, "k")),
       "(metadata)/metadata_props/k", "two values with this name"},
      {"33 graphs", model(nested), "", "nested more than 32 deep", ErrorCode::kLimitExceeded},
      {"a sparse tensor without indices", model(proto_bytes(15, proto_bytes(1, w + raw(8)))), "",
       "no values or no indices"},
      // CVE-2022-25882, CVE-2024-27318, CVE-2026-27489.
      {"a file above", one(external("../w.bin")), "", "'../w.bin'; files of a model must have"},
      {"a file elsewhere", one(external("/w.bin")), "", "must have plain names"},
      {"a file below", one(external("a/w.bin")), "", "must have plain names"},
      {"a file of a drive", one(external("c:w.bin")), "", "must have plain names"},
      {"a name with a NUL", one(external("w\0.bin"s)), "", "must have plain names"},
      {"a file above after a dot", one(external("./../w.bin")), "", "must have plain names"},
      {"a folder", one(external("./.")), "", "must have plain names"},
      {"memory", one(external("*/_ORT_MEM_ADDR_/*")), "", "lies in the memory of the program"},
      {"a location twice", one(external("w.bin") + pair("location", "w.bin")), "", "two locations"},
      {"no location", one(w + proto_number(14, 1)), "", "and none is named"},
      {"external and not", one(w + pair("location", "w.bin")), "", "data_location is not EXTERNAL"},
      {"a third kind of place", one(w + proto_number(14, 2) + raw(8)), "", "data_location 2"},
      {"an offset with a space", one(external("w.bin") + pair("offset", " 0")), "",
       "offset of the tensor is ' 0', which is no number of digits"},
      {"an offset with a line", one(external("w.bin") + pair("offset", "1_0")), "", "'1_0'"},
      {"a negative offset", one(external("w.bin") + pair("offset", "-1")), "", "'-1'"},
      {"no offset", one(external("w.bin") + pair("offset", "")), "", "''"},
      {"an offset of 65 bits", one(external("w.bin") + pair("offset", "18446744073709551616")), "",
       "'18446744073709551616'"},
      {"an offset twice", one(external("w.bin") + pair("offset", "0") + pair("offset", "0")), "",
       "the key 'offset' twice"},
      {"another length", one(external("w.bin") + pair("length", "7")), "w",
       "has 7 bytes, and its shape and type need 8"},
  };
  for (const Bad& row : bad) {
    CAPTURE(row.what);
    for (const std::uint64_t piece : {~std::uint64_t{0}, std::uint64_t{3}}) {
      const auto checkpoint = open(row.file, {}, {{"w.bin", 8}}, piece);
      REQUIRE_FALSE(checkpoint);
      const Error& error = checkpoint.error();
      INFO(error.describe());
      CHECK(to_string(error.code) == to_string(row.code));
      CHECK(error.path == row.path);
      CHECK(error.message.find(row.says) != std::string::npos);
      CHECK((error.offset <= row.file.size() || error.offset == Error::kNoOffset));
    }
  }
  CHECK(open(model(good)));
}

TEST_CASE("onnx: limits") {
  const auto code = [](const Result<Checkpoint>& checkpoint) {
    return checkpoint ? "it opens" : std::string(to_string(checkpoint.error().code));
  };
  const std::string file = one(tensor("w", kFloat, {2}) + raw(8));
  CHECK(code(open(file, {.foreign_header_bytes = file.size()})) == "it opens");
  CHECK(code(open(file, {.foreign_header_bytes = 10})) == "limit_exceeded");
  // Of a tensor that is refused, no numbers are converted.
  const std::string typed = one(tensor("w", kInt64, {1, 1}) + proto_number(7, 1));
  CHECK(code(open(typed)) == "it opens");
  CHECK(code(open(typed, {.rank = 1})) == "limit_exceeded");
  CHECK(code(open(one(external("w.bin")), {.files = 0}, {{"w.bin", 8}})) == "limit_exceeded");
  // A long name of a node stands before that of each attribute: the names grow with the square.
  const std::string attribute =
      proto_bytes(5, proto_bytes(5, tensor("t", kFloat, {2}) + raw(8)) + proto_bytes(1, "a"));
  std::string node = proto_bytes(3, std::string(1000, 'n'));
  for (int i = 0; i < 20; ++i) node += attribute;
  CHECK(code(open(model(proto_bytes(1, node)), {.foreign_header_bytes = 10'000})) ==
        "limit_exceeded");
  // Before chunk records of a file that is not there exhaust memory.
  const std::string huge = one(tensor("w", kFloat, {std::uint64_t{1} << 55}) + proto_number(14, 1) +
                               pair("location", "w.bin"));
  const auto checkpoint = open(huge, {}, {{"w.bin", 8}});
  REQUIRE(checkpoint);
  CHECK(checkpoint->state().at("w")->kind() == Kind::kPlaceholder);
}

TEST_CASE("onnx: the model without the numbers of its tensors is kept") {
  // Of a graph with an attribute that is a tensor, fields that ONNX has not, and texts.
  const auto graph_of = [](const std::string& numbers, const std::string& words,
                           const std::string& floats) {
    const std::string tensors = tensor("w", kFloat, {2}) + numbers + proto_bytes(12, "about it");
    const std::string inner = tensor("inner", kFloat, {1}) + floats;
    const std::string attribute =
        proto_bytes(1, "value") + proto_bytes(5, inner) + proto_fixed(2, 1.5f);
    return proto_bytes(1, proto_bytes(2, "y") + proto_bytes(4, "Relu") + proto_bytes(6, "idle")) +
           proto_bytes(1, proto_bytes(2, "z") + proto_bytes(4, "If") + proto_bytes(5, attribute)) +
           proto_bytes(5, tensors) + proto_bytes(5, tensor("s", kString, {1}) + words) +
           proto_bytes(2, "main") + proto_bytes(99, "new") + proto_bytes(11, "input");
  };
  const std::string file =
      model(graph_of(raw(8), proto_bytes(6, "text"), proto_fixed(4, 1.0f))) + proto_number(5, 3);
  const std::string wanted = model(graph_of("", "", "")) + proto_number(5, 3);
  for (const std::uint64_t piece : {std::uint64_t{1}, std::uint64_t{7}, ~std::uint64_t{0}}) {
    const auto checkpoint = open(file, {}, {}, piece);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    const auto kept = checkpoint->metadata().at("model");
    REQUIRE(kept);
    CHECK(kept->label() == "onnx.ModelProto");
    CHECK(as_text(*kept->as_bytes()) == wanted);
    REQUIRE(checkpoint->catalog().notes().count() == 1);
    CHECK(checkpoint->catalog().notes().listed().front().message.find("1 field of the model") == 0);
  }
  // Fields that no window has reach into the next one.
  const std::string text(200'000, 't');
  const auto checkpoint = open(model(proto_bytes(1, proto_bytes(6, text))));
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  CHECK(as_text(*checkpoint->metadata().at("model")->as_bytes()) ==
        model(proto_bytes(1, proto_bytes(6, text))));
}

TEST_CASE("onnx: a graph that is too long is a note") {
  const std::string text(OnnxModelCopy::kMostBytes - 1000, 't');
  const auto notes_of = [&](std::size_t more) {
    const std::string node = proto_bytes(6, text + std::string(more, 't'));
    const std::string about =
        proto_bytes(5, tensor("w", kFloat, {2}) + raw(8) + proto_bytes(12, "x"));
    const auto checkpoint = open(model(about + proto_bytes(1, node)));
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    CHECK(checkpoint->metadata().at("model").has_value() == (more == 0));
    std::string said;
    for (const Note& note : checkpoint->catalog().notes().listed()) said += note.message + '\n';
    return said;
  };
  CHECK(notes_of(0).empty());
  CHECK(notes_of(1001) ==
        "the graph of 1 node, with all else beside the tensors, takes more than 16 MiB and is not "
        "kept: keep the model to run it\n"
        "1 text about tensors (doc_string, metadata_props) are not kept\n");
}

TEST_CASE("onnx: what is odd and opens") {
  const auto only_note = [](std::string_view file) {
    const auto checkpoint = open(file);
    REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
    REQUIRE(checkpoint->catalog().notes().count() == 1);
    return checkpoint->catalog().notes().listed().front().message;
  };
  const std::string w = tensor("w", kFloat, {2});
  CHECK(only_note(one(w)) == "the model does not have the numbers of this tensor");
  CHECK(only_note(one(w + raw(8) + proto_bytes(99, "x"))).find("1 field of the model") == 0);
  CHECK(only_note(one(tensor("w", kInt4, {}) + raw(1))).find("onnx.int4 does not fill") !=
        std::string::npos);
  // Its value before its type, which no program writes.
  const std::string value = proto_bytes(5, proto_bytes(1, "value_int") + proto_number(3, 7));
  const auto late =
      open(model(proto_bytes(1, proto_bytes(2, "c") + value + proto_bytes(4, "Constant"))));
  REQUIRE(late);
  REQUIRE(late->catalog().notes().count() == 1);
  CHECK(late->catalog().notes().listed().front().message.find("the constant 'c'") !=
        std::string::npos);
  // Axes in one field, numbers one by one, external data of a length of its own.
  const auto odd = open(
      model(proto_bytes(5, proto_bytes(1, "\x02\x01") + proto_number(2, kInt64) +
                               proto_bytes(8, "axes") + proto_number(7, 1) + proto_number(7, 2)) +
            proto_bytes(5, tensor("one by one", kFloat, {2}) + proto_fixed(4, 1.0f) +
                               proto_fixed(4, 2.0f)) +
            proto_bytes(5, external("w.bin") + pair("length", "8") + pair("checksum", "?"))),
      {}, {{"w.bin", 9}});
  REQUIRE_MESSAGE(odd, odd.error().describe());
  CHECK(odd->tensor_count() == 3);
  CHECK(odd->catalog().notes().count() == 0);
}

TEST_CASE("onnx: which files begin like a model") {
  const auto looks = [](std::string_view front, std::uint64_t more = 0) {
    return looks_like_onnx(as_bytes(front), front.size() + more);
  };
  const std::string file = model("");
  CHECK(looks(file));
  CHECK(looks(proto_number(1, 3) + proto_bytes(2, "who") + proto_bytes(8, "") + file.substr(2)));
  // The front ends before the graph.
  CHECK(looks(proto_number(1, 3) + proto_bytes(2, "who") +
                  proto_bytes(6, std::string(99, 'x')).substr(0, 50),
              50));
  CHECK_FALSE(looks(""));
  CHECK_FALSE(looks(proto_number(1, 3)));
  CHECK_FALSE(looks(proto_number(1, 100) + file.substr(2)));
  CHECK_FALSE(looks(proto_number(2, 8) + file.substr(2)));
  CHECK_FALSE(looks(proto_number(1, 8) + proto_bytes(9, "") + file.substr(2)));
  CHECK_FALSE(looks(proto_number(1, 8) + proto_number(2, 1) + file.substr(2)));
  // A saved model of TensorFlow, and one of Core ML.
  CHECK_FALSE(looks(proto_number(1, 1) + proto_bytes(2, "\x0A\x02\x08\x01")));
  CHECK_FALSE(looks(
      proto_number(1, 4) + proto_bytes(2, "\x0A\x10"s + std::string(500, 'x')).substr(0, 80), 999));
}

}  // namespace
}  // namespace espalier
