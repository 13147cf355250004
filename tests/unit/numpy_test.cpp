// The headers of .npy files, and .npz archives whose arrays are wrong.
#include <string>
#include <string_view>
#include <vector>

#include "support/zip_maker.h"
#include <doctest/doctest.h>

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/numpy/format.h"
#include "espalier/foreign/numpy/npy_tensor.h"
#include "espalier/foreign/numpy/read_npy_header.h"
#include "espalier/format/file_set.h"
#include "espalier/notes.h"

namespace espalier {
namespace {

using testing::append_number;
using testing::deflated;
using testing::make_zip;

std::string npy(std::string_view header, std::string_view data = "", int major = 1) {
  std::string file = "\x93NUMPY";
  append_number(file, static_cast<std::uint64_t>(major), 2);
  append_number(file, header.size(), major == 1 ? 2 : 4);
  file += header;
  return file += data;
}

std::string descr(std::string_view text, std::string_view shape = "(2,)",
                  std::string_view order = "False") {
  return "{'descr': " + std::string(text) + ", 'fortran_order': " + std::string(order) +
         ", 'shape': " + std::string(shape) + ", }\n";
}

// A file that is fed as a driver feeds it.
Result<Checkpoint> open(const std::string& file, const Limits& limits = {}) {
  AnyOpener opener({.file_size = file.size(), .limits = limits});
  while (!opener.needs().empty()) {
    const Extent need = opener.needs().front();
    auto ok = opener.feed(need, as_bytes(file).subspan(need.offset, need.length));
    if (!ok) return propagate(ok);
  }
  return opener.finish();
}

std::string outcome(const std::string& file) {
  const auto opened = open(file);
  return opened ? "ok"
                : std::string(to_string(opened.error().code)) + ": " + opened.error().message;
}

std::string header_outcome(const std::string& header) {
  const std::string file = npy(header);
  const auto array = read_npy_header(as_bytes(file));
  return array ? "ok" : array.error().message;
}

TEST_CASE("A header of any spelling that Python reads is understood") {
  const std::string good[] = {
      descr("'<f4'"),
      "{\"shape\": (2L,), u'descr': u'<f4', 'fortran_order': False}",
      "{'shape':(2,),'descr':'f4','fortran_order':False}   ",
      "{ 'fortran_order' : False , 'shape' : ( 2 , ) , 'descr' : '=f4' , }",
  };
  for (const std::string& header : good) {
    for (const int major : {1, 2, 3}) {
      const std::string file = npy(header, std::string(8, '\0'), major);
      CAPTURE(header);
      const auto bytes = npy_header_bytes(as_bytes(file));
      REQUIRE(bytes);
      const auto array = read_npy_header(as_bytes(file).first(*bytes));
      REQUIRE(array);
      CHECK(array->dtype == DType::kF32);
      CHECK(array->shape == std::vector<std::uint64_t>{2});
      CHECK_FALSE(array->is_fortran);
      CHECK(array->header_bytes + 8 == file.size());
    }
  }
  CHECK(header_outcome(descr("'<f4'", "()")) == "ok");
  CHECK(header_outcome(descr(
            "[('a', '<f4'), (('t', 'b'), '>i2', (2, 3)), ('c', [('d', '|S3')], 2)]")) == "ok");
}

TEST_CASE("Sizes of structured elements add up") {
  const std::string file = npy(
      descr("[('a', '<f4'), (('t', 'b'), '>i2', (2, 3)), ('c', [('d', '|S3'), ('e', '<U2')], 2)]"));
  const auto array = read_npy_header(as_bytes(file));
  REQUIRE(array);
  CHECK(array->dtype == DType::kOpaque);
  CHECK(array->item_bytes == 4 + 12 + 2 * (3 + 8));
  CHECK(array->block.bytes == array->item_bytes);
  CHECK(array->block.name.starts_with("[('a', '<f4')"));
}

TEST_CASE("A header that NumPy does not write is refused") {
  struct Case {
    std::string header;
    std::string_view message;
  };
  std::string deep = "'<f4'";
  for (int i = 0; i < 100; ++i) deep = "[('a', " + deep + ")]";
  const Case cases[] = {
      {"", "the .npy header is damaged: it lacks a '{'"},
      {"{", "the .npy header is damaged: it lacks a '''"},
      {"{}", "the .npy header lacks descr, fortran_order or shape"},
      {"{'descr': '<f4', 'fortran_order': False}", "the .npy header lacks descr"},
      {descr("'<f4'") + "x", "the .npy header goes on after its dict"},
      {"{'descr': '<f4', 'descr': '<f8'}", "the .npy header has a member twice"},
      {"{'other': 1}", "the .npy header has a member besides descr, fortran_order and shape"},
      {"{'descr': '<f4", "the .npy header is damaged: a string does not end"},
      {"{'descr': '<f4\\", "the .npy header is damaged: a string does not end"},
      {descr("'<f3'"), "the .npy header has a descr of no type that NumPy stores: '<f3'"},
      {descr("'<i3'"), "the .npy header has a descr of no type that NumPy stores: '<i3'"},
      {descr("'<q4'"), "the .npy header has a descr of no type that NumPy stores"},
      {descr("'<f'"), "the .npy header has a descr of no type that NumPy stores"},
      {descr("'<U4294967295'"), "the .npy header has a descr of no type that NumPy stores"},
      {descr("'<f99999999999999999999'"),
       "the .npy header has a descr of no type that NumPy stores"},
      {descr("'<M8[D'"), "the .npy header has a descr of no type that NumPy stores"},
      {descr("'<f4'", "2"), "the .npy header is damaged: it lacks a '('"},
      {descr("'<f4'", "(-2,)"), "the .npy header has a length that is no number"},
      {descr("'<f4'", "(1.5,)"), "the .npy header is damaged: it lacks a ')'"},
      {descr("'<f4'", "(99999999999999999999,)"), "the .npy header has a length that is no number"},
      {descr("'<f4'", ")2,("), "the .npy header is damaged: it lacks a '('"},
      {descr("'<f4'", "(2,)", "0"), "the .npy header has a fortran_order that is neither"},
      {descr("[('a', '<f3x')]"), "the .npy header has a field of no type that NumPy stores"},
      {descr("[('a', '|V4294967295'), ('b', '|V1')]"), "the .npy header has elements of more than"},
      {descr("[('a', '|V2', (4294967295, 4294967295, 4294967295))]"),
       "the .npy header has elements of more than 4 GiB"},
      {descr(deep), "the .npy header nests its fields too deeply"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.header);
    CHECK(header_outcome(wrong.header).starts_with(wrong.message));
  }
  std::string axes = "(";
  for (int i = 0; i < 65; ++i) axes += "1, ";
  CHECK(header_outcome(descr("'<f4'", axes + ")")) == "the .npy header has more than 64 axes");
}

TEST_CASE("A .npy file that is cut, goes on, or holds objects is refused") {
  const std::string eight(8, '\0');
  CHECK(outcome(npy(descr("'<f4'"), eight)) == "ok");
  CHECK(outcome(npy(descr("'<f4'"), eight.substr(1))).starts_with("truncated: the array needs 8"));
  CHECK(outcome(npy(descr("'<f4'"), eight + "x")).starts_with("trailing_bytes: the file goes on"));
  CHECK(outcome(npy(descr("'<f4'", "(4611686018427387904, 8)"), eight))
            .starts_with("truncated: the array needs more than 2^63 bytes"));
  CHECK(outcome(npy(descr("'<f4'", "(4611686018427387904, 8, 0)"))) == "ok");
  CHECK(outcome(npy(descr("'|O'"), eight)).starts_with("foreign_invalid: this is an array of Py"));
  CHECK(outcome(npy(descr("[('a', '|O')]"), eight)).starts_with("foreign_invalid: this is an arr"));
  CHECK(outcome(npy(descr("'<f4'"), eight, 4)).starts_with("unsupported_version: the .npy header"));
  CHECK(outcome(npy(descr("'<f4'")).substr(0, 9)).starts_with("truncated: the .npy header is cut"));
  CHECK(
      outcome(npy(descr("'<f4'")).substr(0, 40)).starts_with("truncated: the .npy header is cut"));
  CHECK(
      outcome(npy(std::string(70'000, ' '), "", 2)).starts_with("limit_exceeded: the .npy header"));
}

TEST_CASE("An array of an archive that cannot be read leaves the others as they are") {
  const std::string good = npy(descr("'<f4'"), std::string(8, '\0'));
  const auto checkpoint =
      open(make_zip({{"good.npy", good},
                     {"short.npy", good.substr(0, good.size() - 1)},
                     {"no array.npy", "text"},
                     {"cut.npy", good.substr(0, 40)},
                     {"objects.npy", npy(descr("'|O'"), "pickle")},
                     {.name = "bad.npy",
                      .data = std::string(100, ' '),
                      .packed = std::string(10, '\x07'),
                      .method = 8},
                     {.name = "packed.npy", .data = good, .packed = deflated(good), .method = 8}}));
  REQUIRE(checkpoint);
  const NodeRef state = checkpoint->state();
  REQUIRE(state.size() == 7);
  const Kind kinds[] = {Kind::kTensor,      Kind::kNull, Kind::kNull,  Kind::kNull,
                        Kind::kPlaceholder, Kind::kNull, Kind::kTensor};
  for (std::uint32_t i = 0; i < 7; ++i) CHECK(state.child(i).kind() == kinds[i]);
  // The first is a problem of the file, so that it does not verify; all others are notes.
  const auto& files = checkpoint->catalog().files();
  REQUIRE(files.size() == 3);
  REQUIRE(files.back().problem);
  CHECK(files.back().problem->path == "short");
  CHECK(files.back().problem->message ==
        "this array cannot be read: its header asks for 8 bytes of elements and the archive has 7");
  const Notes& notes = checkpoint->catalog().notes();
  REQUIRE(notes.count() == 4);
  // What loading would run comes first.
  CHECK(notes.listed()[0].message.starts_with("this is an array of Python objects"));
  CHECK(notes.listed()[0].kind == Note::Kind::kCode);
  CHECK(notes.listed()[1].path == "no array");
  CHECK(notes.listed()[1].message ==
        "this array cannot be read: the array does not begin as .npy files do");
  CHECK(notes.listed()[2].message == "this array cannot be read: its .npy header is cut");
  CHECK(notes.listed()[3].message.starts_with("this array cannot be read: the entry 'bad.npy'"));
  for (const Note& note : notes.listed().subspan(1)) CHECK(note.kind == Note::Kind::kLoss);
  CHECK(checkpoint->catalog().format() == kNpzFormat);
}

TEST_CASE("An array with more axes than Limits::rank is no reason to refuse the others") {
  const std::string file = make_zip({{"a.npy", npy(descr("'|u1'", "(1, 1, 2)"), "12")}});
  Limits limits;
  limits.rank = 3;
  const auto whole = open(file, limits);
  REQUIRE(whole);
  CHECK(whole->state().child(0).kind() == Kind::kTensor);
  limits.rank = 2;
  const auto lacking = open(file, limits);
  REQUIRE(lacking);
  CHECK(lacking->state().child(0).kind() == Kind::kNull);
  CHECK(lacking->catalog().files().back().problem->message ==
        "this array cannot be read: it has 3 axes and Limits::rank allows 2");
}

TEST_CASE("An archive of something else is named") {
  const auto is = [](const std::vector<testing::ZipPart>& parts, std::string_view what) {
    const std::string text = outcome(make_zip(parts));
    CAPTURE(text);
    CHECK(text.starts_with("not_a_checkpoint: no format that the library reads (Espalier, "));
    CHECK(text.find(what) != std::string::npos);
  };
  is({{"a.npy", "1"}, {"model.weights.h5", "2"}}, "Keras model (.keras)");
  is({{"[Content_Types].xml", "1"}}, "office document");
  is({{"a.py", "1"}, {"a-1.dist-info/WHEEL", "1"}}, "Python wheel");
  is({{"a.npy", "1"}, {"readme", "1"}}, ".npy arrays beside other files");
  is({{"readme", "1"}}, "it is a zip archive; unpack it first: unzip FILE");
}

}  // namespace
}  // namespace espalier
